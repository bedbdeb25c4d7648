"""A worker process of a pool: how it is called, and what it does."""

from __future__ import annotations

import logging
import signal
import time
from contextlib import closing

import click

from streamtopo.cli.failures import FAILED, told
from streamtopo.cli.serving import Web, answering
from streamtopo.config import WorkerConfig
from streamtopo.engine.lifeline import Lifeline
from streamtopo.engine.loading import load_topology
from streamtopo.engine.metrics import Metrics
from streamtopo.engine.running import Ending, run
from streamtopo.engine.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import open_log

_BETWEEN_REPORTS = 0.2


def options_of(web: Web) -> list[str]:
    """What a process is told beside the worker's options."""
    verbose = ["--verbose"] if "streamtopo.verbose" in click.get_current_context().meta else []
    if web.port is None:
        return verbose
    names = ",".join(web.allowed_hosts)
    return [*verbose, "--web-port", str(web.port), "--web-host", web.host, "--web-allowed-hosts", names]


def work_for_a_pool(
    context: click.Context, descriptor: int, app: str, log: str, config: WorkerConfig, web: Web
) -> None:
    lifeline = Lifeline(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("streamtopo").setLevel(logging.INFO)
    try:
        _work(lifeline, app, log, config, web)
    except StreamtopoError as error:
        lifeline.fail(told(error, context))
        context.exit(FAILED)


def _work(lifeline: Lifeline, app: str, url: str, config: WorkerConfig, web: Web) -> None:
    """The pool, and it alone, counts signals: every SIGTERM only asks to come to an end."""
    topology = load_topology(app)
    with (
        Ending(config.close_timeout / 1000) as ending,
        closing(open_log(url)) as log,
        answering(web, topology, log, config) as worker,
    ):
        signal.signal(signal.SIGTERM, lambda *_: ending.begin(worker.stop))
        reports = _Reports(lifeline)

        def each_turn() -> None:
            worker.paused = lifeline.paused
            reports.report(worker)

        worker.paused = lifeline.paused
        run(worker, each_turn=each_turn, signals=False)
        lifeline.report(worker.metrics())


class _Reports:
    def __init__(self, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._last: Metrics | None = None
        self._next = 0.0

    def report(self, worker: Worker) -> None:
        if time.monotonic() >= self._next:
            metrics = worker.metrics()
            if metrics != self._last:
                self._lifeline.report(metrics)
                self._last = metrics
            if metrics.records:  # the first ones are news at once: from then on the process is worth replacing
                self._next = time.monotonic() + _BETWEEN_REPORTS
