"""The engine's side of every pair: a worker runs a topology until everything is consumed and committed."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.places import Place
from streamtopo.engine.worker.worker import Worker
from streamtopo.logs import Log
from streamtopo.settings.config import WorkerConfig
from streamtopo.topology import Topology

Side = Callable[[Place], None]
"""Run the whole job in a place whose topics are filled."""


def processing(make_topology: Callable[[], Topology], config: WorkerConfig | None = None) -> Side:
    """Start with empty state, and process all topics to their ends, internal ones too."""

    def run(place: Place) -> None:
        worker = _worker(make_topology(), place, config)
        while worker.run_once(0.001) or not everything_committed(worker, place.log):
            pass

    return run


def restoring(make_topology: Callable[[], Topology], tasks: int) -> Side:
    """Start with changelogs but no stores, and finish when all tasks are running."""

    def run(place: Place) -> None:
        worker = _worker(make_topology(), place, None)
        while len(worker.tasks) < tasks:
            worker.run_once()

    return run


def _worker(topology: Topology, place: Place, config: WorkerConfig | None) -> Worker:
    return Worker(topology, place.log, place.open_store, now=lambda: time.time_ns() // 1_000_000, config=config)


def everything_committed(worker: Worker, log: Log) -> bool:
    inputs = [partition for task in worker.tasks.values() for partition in task.inputs]
    committed = worker.member.committed(inputs) or {}
    return bool(inputs) and all(part in committed and committed[part].offset == log.end(part) for part in inputs)
