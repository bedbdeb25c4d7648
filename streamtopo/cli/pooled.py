"""A worker process of a pool: how it is called, and what it does."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from enum import Enum
from typing import Any

import click

from streamtopo.cli.failures import FAILED, told
from streamtopo.cli.serving import Web, answering, arguments
from streamtopo.config import WorkerConfig
from streamtopo.engine.lifeline import Lifeline
from streamtopo.engine.loading import load_topology
from streamtopo.engine.metrics import Metrics
from streamtopo.engine.running import run
from streamtopo.engine.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import open_log

_BETWEEN_REPORTS = 0.2
_DURATIONS = {"commit_interval", "commit_pause"}


def command(app: str, log: str, config: WorkerConfig, web: Web, lifeline: int) -> list[str]:
    """All options are given, so that the environment and pyproject.toml have no say any more."""
    verbose = ["--verbose"] if "streamtopo.verbose" in click.get_current_context().meta else []
    return [
        *(sys.executable, "-m", "streamtopo", "worker", app, "--log", log),
        *(option for field in fields(config) for option in _option(field.name, getattr(config, field.name))),
        *arguments(web),
        *verbose,
        *("--lifeline", str(lifeline)),
    ]


def _option(name: str, value: Any) -> Iterator[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        yield from [flag] if value else []
    elif isinstance(value, Enum):
        yield f"{flag}={value.value}"
    else:
        yield f"{flag}={value}{'ms' if name in _DURATIONS else ''}"


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
    with closing(open_log(url)) as log, answering(web, topology, log, config) as (worker, look):
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        reports = _Reports(lifeline)

        def each_turn() -> None:
            look()
            reports.report(worker)

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
