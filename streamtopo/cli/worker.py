"""streamtopo worker: runs an application, in this process or in several."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

import click

from streamtopo.cli.failures import FAILED
from streamtopo.cli.options import Setting, log_option, worker_options
from streamtopo.cli.serving import Web, answering, web_options
from streamtopo.config import WorkerConfig

if TYPE_CHECKING:
    from streamtopo.cli.watching import View, Watch
    from streamtopo.engine.pool import Pool
    from streamtopo.engine.running import Ending
    from streamtopo.engine.worker import Worker

_DEMO_PARTITIONS = 4
_SHOW_CURSOR = b"\x1b[?25h"
"""The live view hides it."""


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
    help="Share the tasks among so many processes; one that dies is replaced.",
)
@click.option("--demo", is_flag=True, help="Feed the application its own sample input, and show what comes of it.")
@log_option
@worker_options
@web_options
@click.option("--lifeline", type=int, hidden=True, help="For processes of a pool: the descriptor that leads to it.")
@click.pass_context
def worker(
    context: click.Context,
    app: str,
    processes: int,
    demo: bool,
    log: str,
    config: WorkerConfig,
    web: Web,
    lifeline: int | None,
) -> None:
    """Run APP until Ctrl-C or SIGTERM, which commit; a second one ends it at once.

    \b
    Examples:
      streamtopo worker apps.wordcount --demo
      streamtopo worker apps.wordcount --processes 2 --commit-interval 1s
      streamtopo worker ./app.py:topology --log embedded:/var/lib/words --on-error skip
    """
    from streamtopo.engine.interpreter import give_memory_back
    from streamtopo.stores.open_files import raise_limit

    give_memory_back()
    raise_limit()
    if lifeline is not None:
        from streamtopo.cli.pooled import work_for_a_pool

        work_for_a_pool(context, lifeline, app, log, config, web)
    elif demo:
        run(app, processes, log, replace(config, create_topics=config.create_topics or _DEMO_PARTITIONS), web, demo)
    else:
        run(app, processes, log, config, web, demo)


def run(app: str, processes: int, url: str, config: WorkerConfig, web: Web, demo: bool) -> None:
    from streamtopo.cli.banner import banner
    from streamtopo.cli.demonstration import Demonstration, demo_of
    from streamtopo.cli.watching import Watch
    from streamtopo.engine.loading import load_module, load_topology
    from streamtopo.engine.running import Ending
    from streamtopo.engine.topics import Topics
    from streamtopo.logs.opening import open_log

    signals = Signals()
    with taken(signals), ExitStack() as stack:
        ending = stack.enter_context(Ending(config.close_timeout / 1000, _show_cursor))
        topology = load_topology(app)
        shown = demo_of(load_module(app)) if demo else None
        log = stack.enter_context(closing(open_log(url)))
        plan = Topics(topology, log, config).plan
        click.echo(banner(topology, plan, log, url, processes, config.guarantee))
        demonstration = stack.enter_context(Demonstration(shown, topology, log)) if shown else None
        view = _view()
        stack.callback(view.close)
        stack.enter_context(logged(view))
        watch = Watch(view, demonstration)
        if processes == 1:
            worker = stack.enter_context(answering(web, topology, log, config, view.say))
            _work_here(worker, watch, signals, ending)
        else:
            _work_in(_pool(app, processes, url, config, web, view), watch, signals, view)


def _work_here(worker: Worker, watch: Watch, signals: Signals, ending: Ending) -> None:
    from streamtopo.engine.running import run as run_worker

    signals.stop = lambda: ending.begin(worker.stop)
    run_worker(worker, each_turn=lambda: watch.look(worker.metrics), signals=False)
    watch.end(worker.metrics())


def _pool(app: str, processes: int, url: str, config: WorkerConfig, web: Web, view: View) -> Pool:
    from streamtopo.cli.pooled import options_of
    from streamtopo.engine.command import command, environment
    from streamtopo.engine.pool import Pool

    more, within = options_of(web), config.close_timeout / 1000
    started_by = functools.partial(command, app, config, more=more)
    return Pool(started_by, processes, view.say, environment(url, web.token), within)


def _work_in(pool: Pool, watch: Watch, signals: Signals, view: View) -> None:
    from streamtopo.engine.pool import PoolError

    signals.stop = pool.stop
    try:
        pool.run(each_turn=lambda: watch.look(pool.metrics))
    except PoolError as error:
        view.close()
        click.echo(str(error), err=True)
        click.get_current_context().exit(FAILED)
    watch.end(pool.metrics())


def _view() -> View:
    if sys.stdout.isatty():
        from streamtopo.cli.live import LiveView

        return LiveView()
    from streamtopo.cli.watching import Lines

    return Lines()


# -- signals


class Signals:
    """The first one asks whoever is at work to stop; the second, or one before there is work, ends the process."""

    def __init__(self) -> None:
        self.stop: Callable[[], object] | None = None
        self._asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.stop is None:
            os._exit(0)
        if self._asked:
            _show_cursor()
            os._exit(128 + number)
        self._asked = True
        self.stop()


def _show_cursor() -> None:
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)


@contextmanager
def taken(signals: Signals) -> Iterator[None]:
    before = {number: signal.signal(number, signals) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- what the engine logs


class _Said(logging.Handler):
    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        self._view.say(self.format(record))


@contextmanager
def logged(view: View) -> Iterator[None]:
    """The engine's own messages are lines of the view."""
    logger, handler = logging.getLogger("streamtopo"), _Said(view)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
