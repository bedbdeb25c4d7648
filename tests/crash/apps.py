"""The application that is killed, what it is fed, and what must have come of it however often it was killed."""

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
from streamtopo.stores.directory import StateDirectory
from streamtopo.stores.layout import prefix_of, stored_rows
from streamtopo.stores.rocks import MemoryBudget, open_rocks

PARTITIONS = 3
KEYS = 50


def counting() -> Topology:
    """Numbers in; their negatives out, and how often each remainder came, through a repartition topic."""
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
    """The numbers from `start` up to `stop`, in turns over the partitions."""
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
    """As if nothing had happened: every number once and in order, every count once, stores as their changelogs."""
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
    """For each key the counts that were written, in their order."""
    counts = defaultdict(list)
    for part in parts("out"):
        columns = everything(log, part)
        for key, count in zip(INT.decode_column(columns.keys), INT.decode_column(columns.values), strict=True):
            counts[key].append(count)
    return counts


def replayed(log: EmbeddedLog, changelog: TopicPartition) -> dict[bytes, bytes | None]:
    """A store's rows as its changelog has them, from the beginning."""
    rows = stored_rows(COUNTS, everything(log, changelog))
    return {key: value for key, value in rows.items() if value is not None}


@contextmanager
def stored(state_dir: Path, partition: int) -> Iterator[dict[bytes, bytes]]:
    """A store's rows as the next worker would find them."""
    store = open_rocks(StateDirectory(state_dir, "crash").open(["counts"], partition), MemoryBudget(1 << 20))
    try:
        yield dict(store.scan(b"\1", b"\xff"))
    finally:
        store.close()


@contextmanager
def working(topology: Topology, log: EmbeddedLog, state_dir: Path, **options: Any) -> Iterator[Worker]:
    """A worker in this process that has caught up, and is closed at the end."""
    worker = Worker(topology, log, state_dir=str(state_dir), **options)
    catch_up(worker)
    yield worker
    worker.close()


def catch_up(worker: Worker) -> None:
    deadline = time.monotonic() + 60
    while worker.run_once(0.001) or worker._pace.undurable or not worker.tasks or worker.metrics().lag != 0:
        assert time.monotonic() < deadline, worker.metrics()
