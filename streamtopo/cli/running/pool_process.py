"""A worker process of a pool: its command-line arguments, and how it runs."""

from __future__ import annotations

import logging
import signal
import time
from contextlib import closing

import click

from streamtopo.cli.running.web_server import WebOptions, worker_with_server
from streamtopo.cli.shared.failures import FAILED, message_of
from streamtopo.engine.loading import load_topology
from streamtopo.engine.metrics import Metrics
from streamtopo.engine.processes.lifeline import Lifeline
from streamtopo.engine.worker.run import Ending, run
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import open_log
from streamtopo.settings.config import WorkerConfig

_REPORT_INTERVAL = 0.2


def extra_arguments(web: WebOptions) -> list[str]:
    """Return the arguments for a process that are not options of the worker."""
    verbose = ["--verbose"] if "streamtopo.verbose" in click.get_current_context().meta else []
    if web.port is None:
        return verbose
    names = ",".join(web.allowed_hosts)
    return [*verbose, "--web-port", str(web.port), "--web-host", web.host, "--web-allowed-hosts", names]


def run_pool_worker(
    context: click.Context, descriptor: int, app: str, log: str, config: WorkerConfig, web: WebOptions
) -> None:
    lifeline = Lifeline(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("streamtopo").setLevel(logging.INFO)
    try:
        _run_worker(lifeline, app, log, config, web)
    except StreamtopoError as error:
        lifeline.fail(message_of(error, context))
        context.exit(FAILED)


def _run_worker(lifeline: Lifeline, app: str, url: str, config: WorkerConfig, web: WebOptions) -> None:
    """Only the pool counts signals: here, every SIGTERM asks the worker to stop."""
    topology = load_topology(app)
    with (
        Ending(config.close_timeout / 1000) as ending,
        closing(open_log(url)) as log,
        worker_with_server(web, topology, log, config) as worker,
    ):
        signal.signal(signal.SIGTERM, lambda *_: ending.begin(worker.stop))
        reports = _Reporter(lifeline)

        def each_turn() -> None:
            worker.paused = lifeline.paused
            reports.report(worker)

        worker.paused = lifeline.paused
        run(worker, each_turn=each_turn, signals=False)
        lifeline.report(worker.metrics())


class _Reporter:
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
            if metrics.records:  # until then, every turn: the pool replaces only processes that have processed records
                self._next = time.monotonic() + _REPORT_INTERVAL
