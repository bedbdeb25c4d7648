"""Kafka Streams reads what streamtopo writes, and the reverse: bytes, partitions, times, headers, deletions."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamtopo import Serde, StreamsBuilder, Topology, Windows, Worker
from streamtopo.broker import find_java
from streamtopo.broker.downloads import LOGGING, fetched, version
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, Headers, TopicPartition
from tests.jvms import BRIEF
from tests.kafka.brokers import emptied
from tests.logs.child import until

pytestmark = pytest.mark.kafka
PROGRAM = Path(__file__).with_name("java") / "Interop.java"
JARS = f"org.apache.kafka:kafka-streams:{version()}", "com.fasterxml.jackson.core:jackson-databind:2.19.0", LOGGING
PATIENCE = 120.0
NOW = 1_790_000_000_000
PARTITIONS = 3
PRICES = TopicPartition("prices", partition_of(b"a", PARTITIONS))
COPIED = ("strings", "longs", "ints", "windowed")
TABLES = {"counts-table": "python-counts-changelog", "prices-table": "python-prices-changelog"}
INT32 = Serde(
    "int32",
    lambda number: number.to_bytes(4, "big", signed=True),
    lambda data: int.from_bytes(data, "big", signed=True),
)
Row = tuple[bytes | None, bytes | None, int, Headers]


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    for name in ("in", "prices", "back", "counts-back", *(f"from-python-{name}" for name in COPIED)):
        log.create(Topic(name, PARTITIONS))
    for name in (*COPIED, *TABLES, "counts"):
        log.create(Topic(f"from-java-{name}", PARTITIONS))
    yield log
    log.close()


def python() -> Topology:
    builder = StreamsBuilder("python")
    records = builder.stream("in", key=str, value=str)
    records.to("from-python-strings")
    keyed = records.filter(lambda key, value: key is not None)
    keyed.select_key(lambda key, value: int(key[4:]) * 1_000_003 - 5, key=int).to("from-python-longs")
    keyed.select_key(lambda key, value: int(key[4:]) * 1_003 - 5, key=INT32).to("from-python-ints")
    grouped = keyed.group_by_key()
    grouped.count(name="counts")
    windows = grouped.windowed_by(Windows.tumbling("10s")).count(name="windows").to_stream()
    windows.map_values(str, value=str).to("from-python-windowed")
    builder.table("prices", key=str, value=str, name="prices")
    return builder.build()


def back() -> Topology:
    """Read what Kafka Streams wrote: its records, which are repartitioned, and the changelog of its count."""
    builder = StreamsBuilder("back")
    builder.stream("from-java-strings", key=str, value=str).select_key(lambda key, value: key, key=str).to("back")
    builder.table("java-counts-changelog", key=str, value=int).to_stream().to("counts-back")
    return builder.build()


def feed(log: KafkaLog) -> None:
    for number in range(40):
        key = None if number % 10 == 9 else b"key %d" % (number % 7)
        value = None if number % 8 == 7 else b"value %d" % number
        headers: list[Headers] | None = (
            [(("trace", b"%d" % number), ("trace", b""), ("none", None))] if number % 3 else None
        )
        partition = number % PARTITIONS if key is None else partition_of(key, PARTITIONS)
        log.append(TopicPartition("in", partition), Columns([key], [value], [NOW + 997 * number], headers))
    log.append(PRICES, Columns([b"a", b"c"], [b"1", b"2"], [NOW, NOW + 1]))


def rows(log: KafkaLog, topic: str) -> list[list[Row]]:
    """Return the rows of each partition."""
    return [_rows(log, TopicPartition(topic, number)) for number in range(PARTITIONS)]


def _rows(log: KafkaLog, partition: TopicPartition) -> list[Row]:
    """Return all rows: brokers show committed records with a short delay."""
    while (batch := log.read(partition, 0, 10_000)).next_offset < log.end(partition):
        pass
    keys, values, times, headers = batch.columns
    return list(zip(keys, values, times, headers or [()] * len(keys), strict=True))


def count(partitions: list[list[Row]]) -> int:
    return sum(map(len, partitions))


def placed(partitions: list[list[Row]]) -> tuple[list[list[Row]], list[Row]]:
    """Return each partition's rows with a key, and all rows without one, which may be in any partition."""
    keyless = [row for partition in partitions for row in partition if row[0] is None]
    return [[row for row in partition if row[0] is not None] for partition in partitions], sorted(keyless, key=_time)


def _time(row: Row) -> int:
    return row[2]


@contextmanager
def kafka_streams(kafka: str, folder: Path) -> Iterator[None]:
    java = find_java()
    jars = fetched(java, f"kafka-streams-{version()}", JARS)
    command = [
        java,
        *BRIEF,
        "-Xmx256M",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        os.pathsep.join(map(str, jars)),
    ]
    process = subprocess.Popen([*command, str(PROGRAM), kafka.removeprefix("kafka://"), str(folder / "java")])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def work(topology: Topology, log: KafkaLog, folder: Path, done: Callable[[], bool]) -> None:
    worker = Worker(topology, log, state_dir=str(folder), cache=0)
    until(lambda: not worker.run_once(0.05) and done(), PATIENCE)
    worker.close()


def read_by(log: KafkaLog, group: str) -> dict[str, int]:
    """Return the group's total offset in each topic."""
    state = log.groups().get(group)
    positions = state.positions if state else {}
    topics = {partition.topic for partition in positions}
    return {topic: sum(at.offset for part, at in positions.items() if part.topic == topic) for topic in topics}


def test_kafka_streams_and_streamtopo_read_and_partition_alike(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    feed(log)
    work(python(), log, tmp_path, lambda: read_by(log, "python") == {"in": 40, "prices": 2})
    log.append(PRICES, Columns([b"a"], [None], [NOW + 2]))
    work(python(), log, tmp_path, lambda: read_by(log, "python") == {"in": 40, "prices": 3})
    copied = {name: placed(rows(log, f"from-python-{name}")) for name in COPIED}
    tables = {name: latest(rows(log, changelog)) for name, changelog in TABLES.items()}
    with kafka_streams(kafka, tmp_path):
        soon(lambda: {name: placed(rows(log, f"from-java-{name}")) for name in COPIED}, copied)
        soon(lambda: {name: latest(rows(log, f"from-java-{name}")) for name in TABLES}, tables)
        counted = counts(log, "from-java-counts")
        work(back(), log, tmp_path, lambda: count(rows(log, "back")) == 40 and counts(log, "counts-back") == counted)
    assert placed(rows(log, "back")) == copied["strings"]
    assert {name: sum(map(len, by_key)) for name, (by_key, _) in copied.items()} == dict.fromkeys(COPIED, 36)
    assert len(copied["strings"][1]) == 4
    assert {key: row[1] for key, row in tables["prices-table"].items()} == {b"a": None, b"c": b"2"}


def counts(log: KafkaLog, topic: str) -> dict[bytes | None, tuple[bytes | None, int]]:
    """Return rows without headers, which Kafka Streams leaves out of changelogs."""
    return {key: row[1:3] for key, row in latest(rows(log, topic)).items()}


def soon(found: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE
    while (now := found()) != wanted and time.monotonic() < deadline:
        pass
    assert now == wanted


def latest(partitions: list[list[Row]]) -> dict[bytes | None, Row]:
    """Return the last row of each key: brokers may have compacted the others away."""
    return {row[0]: row for partition in partitions for row in partition}
