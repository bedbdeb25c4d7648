"""The application that is killed, its input, and its expected results, however often it was killed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes import INT
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.directory import StateDirectory
from streamtopo.stores.backends.rocks import MemoryBudget, open_rocks
from streamtopo.stores.rows.layout import prefix_of, stored_rows

PARTITIONS = 3
KEYS = 50


def counting() -> Topology:
    """Read numbers; write their negatives, and count each remainder through a repartition topic."""
    builder = StreamsBuilder("crash")
    numbers = builder.stream("in", value=int)
    numbers.map_values(lambda number: -number).to("negated")
    counts = numbers.group_by(lambda _, number: number % KEYS, key=int).count(name="counts")
    counts.to_stream().to("out")
    return builder.build()


COUNTS: StoreSpec = counting().stores["counts"]


def new_log(path: Path, *, lease: float = 10.0) -> EmbeddedLog:
    log = EmbeddedLog(path, lease=lease)
    for name in ("in", "negated", "out"):
        log.create(Topic(name, PARTITIONS))
    return log


def feed(log: EmbeddedLog, start: int, stop: int) -> None:
    """Append the numbers from `start` up to `stop`, in turn to the partitions."""
    for part in parts("in"):
        numbers = [number for number in range(start, stop) if number % PARTITIONS == part.partition]
        log.append(part, Columns([None] * len(numbers), INT.encode_column(numbers), numbers))


def parts(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def written(log: EmbeddedLog, topic: str) -> int:
    return sum(log.end(part) for part in parts(topic))


def finished(log: EmbeddedLog, records: int) -> bool:
    return written(log, "negated") >= records and written(log, "out") >= records


def everything(log: EmbeddedLog, part: TopicPartition) -> Columns:
    return log.read(part, log.start(part), 1 << 30).columns


def check(log: EmbeddedLog, state_dir: Path, records: int) -> None:
    """Check the results of an undisturbed run: every number and count once, in order; stores equal their changelogs."""
    for part in parts("negated"):
        expected = [-number for number in range(part.partition, records, PARTITIONS)]
        assert INT.decode_column(everything(log, part).values) == expected
    assert counted(log) == {key: list(range(1, len(range(key, records, KEYS)) + 1)) for key in range(KEYS)}
    totals: dict[int, int] = {}
    for part in parts("crash-counts-changelog"):
        with stored(state_dir, part.partition) as rows:
            assert rows == replayed(log, part)
        cut = len(prefix_of("counts"))
        totals |= {INT.decode(key[cut:]): INT.decode(row[8:]) for key, row in rows.items()}
    assert sum(totals.values()) == records
    assert totals == {key: len(range(key, records, KEYS)) for key in range(KEYS)}


def counted(log: EmbeddedLog) -> dict[int, list[int]]:
    """Return the counts written for each key, in order."""
    counts = defaultdict(list)
    for part in parts("out"):
        columns = everything(log, part)
        for key, count in zip(INT.decode_column(columns.keys), INT.decode_column(columns.values), strict=True):
            counts[key].append(count)
    return counts


def replayed(log: EmbeddedLog, changelog: TopicPartition) -> dict[bytes, bytes | None]:
    """Return a store's rows according to its changelog, from the beginning."""
    rows = stored_rows(COUNTS, everything(log, changelog))
    return {key: value for key, value in rows.items() if value is not None}


@contextmanager
def stored(state_dir: Path, partition: int) -> Iterator[dict[bytes, bytes]]:
    """Yield a store's rows as the next worker would read them."""
    store = open_rocks(StateDirectory(state_dir, "crash").open(["counts"], partition), MemoryBudget(1 << 20))
    try:
        yield dict(store.scan(b"\1", b"\xff"))
    finally:
        store.close()


@contextmanager
def working(topology: Topology, log: EmbeddedLog, state_dir: Path, **options: Any) -> Iterator[Worker]:
    """Yield a worker in this process that has caught up; it is closed at the end."""
    worker = Worker(topology, log, state_dir=str(state_dir), **options)
    catch_up(worker)
    yield worker
    worker.close()


def catch_up(worker: Worker) -> None:
    deadline = time.monotonic() + 60
    while worker.run_once(0.001) or worker._pace.undurable or not worker.tasks or worker.metrics().lag != 0:
        assert time.monotonic() < deadline, worker.metrics()
