"""How does a process that reads the whole log again and again affect a worker that writes to it?"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.bare.loop import BATCH
from benchmarks.engine import everything_committed
from benchmarks.experiment import Experiment, Observed, percentile
from benchmarks.places import Site
from benchmarks.processes import most_memory, processes
from benchmarks.results import every_record
from benchmarks.watching import left, opened
from benchmarks.workloads.keyed_count import prepare, topology
from streamtopo.engine.worker.worker import Worker
from streamtopo.logs import Log
from streamtopo.records import TopicPartition


def alone(site: Site, records: int) -> Observed:
    fill(site, records)
    with processes(1) as pool:
        measures = pool.submit(work, site).result()
    return Observed(measures, left(site, every_record("counted")))


def with_a_reader(site: Site, records: int) -> Observed:
    fill(site, records)
    stop = site.directory / "stop"
    with processes(1) as pool, processes(1) as other:
        reading = other.submit(read, site, stop)
        measures = pool.submit(work, site).result()
        stop.touch()
        measures |= {"others read records/s": reading.result()}
    return Observed(measures, left(site, every_record("counted")))


def fill(site: Site, records: int) -> None:
    with opened(site) as log:
        prepare(log, records)


def work(site: Site) -> dict[str, float]:
    """Forward and log every update, so that there is much to write."""
    commits: list[float] = []
    wal = 0
    with opened(site) as log:
        worker = Worker(topology(), log, state_dir=str(site.state), cache=0)
        started = time.monotonic()
        while worker.run_once(0.001) or not everything_committed(worker, log):
            metrics = worker.metrics()
            if metrics.commits > len(commits):
                commits.append(metrics.commit_ms)
                wal = max(wal, os.path.getsize(site.directory / "log" / "log.db-wal"))
        seconds = time.monotonic() - started
        worker.close()
    return {
        "records/s": metrics.records / seconds,
        "commit p50 ms": percentile(commits, 50),
        "commit p99 ms": percentile(commits, 99),
        "WAL at most MB": wal / 1e6,
        "memory at most MB": most_memory(os.getpid()),
    }


def read(site: Site, stop: Path) -> float:
    """Read everything, again and again; return the number of records per second."""
    with opened(site) as log:
        began, records = time.monotonic(), 0
        while not stop.exists():
            for topic, (_, partitions, *_) in log.topics().items():
                for number in range(partitions):
                    records += read_partition(log, TopicPartition(topic, number), stop)
    return records / (time.monotonic() - began)


def read_partition(log: Log, partition: TopicPartition, stop: Path) -> int:
    offset, end = 0, log.end(partition)
    while offset < end and not stop.exists():
        offset = log.read(partition, offset, BATCH).next_offset
    return offset


experiment = Experiment(
    "reading",
    "How does a process that reads the whole log again and again affect a worker that writes to it?",
    1_000_000,
    {"alone": alone, "with a reader": with_a_reader},
)
