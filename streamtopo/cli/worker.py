"""streamtopo worker: run an application in one or in several processes."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

import click

from streamtopo.cli.running.web_server import WebOptions, web_options, worker_with_server
from streamtopo.cli.shared.failures import FAILED
from streamtopo.cli.shared.options import Setting, log_option, worker_options
from streamtopo.settings.config import WorkerConfig

if TYPE_CHECKING:
    from streamtopo.cli.running.progress import ProgressReporter, View
    from streamtopo.engine.processes.pool import Pool
    from streamtopo.engine.worker.run import Ending
    from streamtopo.engine.worker.worker import Worker

_DEMO_PARTITIONS = 4
_SAME_SIGNAL = 0.5
"""Seconds. `timeout` and others signal the process and then its whole group, so that one signal comes twice."""
_SHOW_CURSOR = b"\x1b[?25h"
"""The terminal's command to show the cursor, which the live view hides."""


@click.command()
@click.argument("app")
@click.option(
    "--processes",
    cls=Setting,
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    show_default=True,
    show_envvar=True,
    help="Number of worker processes. One that dies is replaced.",
)
@click.option("--demo", is_flag=True, help="Feed the application its own sample input, and show the results.")
@log_option
@worker_options
@web_options
@click.option(
    "--lifeline",
    type=int,
    hidden=True,
    help="For the processes of a pool: the file descriptor of the connection to it.",
)
@click.pass_context
def worker(
    context: click.Context,
    app: str,
    processes: int,
    demo: bool,
    log: str,
    config: WorkerConfig,
    web: WebOptions,
    lifeline: int | None,
) -> None:
    """Run APP until Ctrl-C or SIGTERM.

    The first signal commits and stops; a second one exits immediately.

    \b
    Examples:
      streamtopo worker apps.wordcount --demo
      streamtopo worker apps.wordcount --processes 2 --commit-interval 1s
      streamtopo worker ./app.py:topology --log embedded:/var/lib/words --on-error skip
    """
    from streamtopo.engine.worker.interpreter import give_memory_back
    from streamtopo.stores.backends.open_files import raise_limit

    give_memory_back()
    raise_limit()
    if lifeline is not None:
        from streamtopo.cli.running.pool_process import run_pool_worker

        run_pool_worker(context, lifeline, app, log, config, web)
    elif demo:
        run(app, processes, log, replace(config, create_topics=config.create_topics or _DEMO_PARTITIONS), web, demo)
    else:
        run(app, processes, log, config, web, demo)


def run(app: str, processes: int, url: str, config: WorkerConfig, web: WebOptions, demo: bool) -> None:
    from streamtopo.cli.running.banner import banner
    from streamtopo.cli.running.demo import RunningDemo, demo_of
    from streamtopo.cli.running.progress import ProgressReporter
    from streamtopo.engine.loading import load_module, load_topology
    from streamtopo.engine.topics.topics import Topics
    from streamtopo.engine.worker.run import Ending
    from streamtopo.logs.opening import open_log

    signals = Signals()
    with handling_signals(signals), ExitStack() as stack:
        ending = stack.enter_context(Ending(config.close_timeout / 1000, _show_cursor))
        topology = load_topology(app)
        demo_definition = demo_of(load_module(app)) if demo else None
        log = stack.enter_context(closing(open_log(url)))
        topics = Topics(topology, log, config)
        click.echo(banner(topology, topics, log, url, processes, config.guarantee))
        running_demo = stack.enter_context(RunningDemo(demo_definition, topology, log)) if demo_definition else None
        view = _view()
        stack.callback(view.close)
        stack.enter_context(engine_log_in(view))
        reporter = ProgressReporter(view, running_demo)
        if processes == 1:
            worker = stack.enter_context(worker_with_server(web, topology, log, config, view.say))
            _run_here(worker, reporter, signals, ending)
        else:
            _run_pool(_pool(app, processes, url, config, web, view), reporter, signals, view)


def _run_here(worker: Worker, reporter: ProgressReporter, signals: Signals, ending: Ending) -> None:
    from streamtopo.engine.worker.run import run as run_worker

    signals.stop = lambda: ending.begin(worker.stop)
    run_worker(worker, each_turn=lambda: reporter.update(worker.metrics), signals=False)
    reporter.end(worker.metrics())


def _pool(app: str, processes: int, url: str, config: WorkerConfig, web: WebOptions, view: View) -> Pool:
    from streamtopo.cli.running.pool_process import extra_arguments
    from streamtopo.engine.processes.command import command, environment
    from streamtopo.engine.processes.pool import Pool

    more, timeout = extra_arguments(web), config.close_timeout / 1000
    command_for = functools.partial(command, app, config, more=more)
    return Pool(command_for, processes, view.say, environment(url, web.token), timeout)


def _run_pool(pool: Pool, reporter: ProgressReporter, signals: Signals, view: View) -> None:
    from streamtopo.engine.processes.pool import PoolError

    signals.stop = pool.stop
    try:
        pool.run(each_turn=lambda: reporter.update(pool.metrics))
    except PoolError as error:
        view.close()
        click.echo(str(error), err=True)
        click.get_current_context().exit(FAILED)
    reporter.end(pool.metrics())


def _view() -> View:
    if sys.stdout.isatty():
        from streamtopo.cli.running.live_view import LiveView

        return LiveView()
    from streamtopo.cli.running.progress import LineView

    return LineView()


# -- signals


class Signals:
    """The first signal asks the worker or the pool to stop. A second one, or one before the start, ends the process."""

    def __init__(self) -> None:
        self.stop: Callable[[], object] | None = None
        self._first: float | None = None
        """When the first signal came."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.stop is None:
            os._exit(0)
        if self._first is None:
            self._first = time.monotonic()
            self.stop()
        elif time.monotonic() - self._first > _SAME_SIGNAL:
            _show_cursor()
            os._exit(128 + number)


def _show_cursor() -> None:
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)


@contextmanager
def handling_signals(signals: Signals) -> Iterator[None]:
    before = {number: signal.signal(number, signals) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- what the engine logs


class _ViewHandler(logging.Handler):
    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        self._view.say(self.format(record))


@contextmanager
def engine_log_in(view: View) -> Iterator[None]:
    """Show the engine's log messages as lines of the view."""
    logger, handler = logging.getLogger("streamtopo"), _ViewHandler(view)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
