"""An application with windows, sessions and versions, and its records: some rows are old, and some have expired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamtopo import StreamsBuilder, Windows, host
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.testing import Driver
from tests.hosting.conftest import until

PARTITIONS = 3
KEYS = ["a", "b", "c", "dd", "d"]
PRICES = [f"price of {number}" for number in range(4)]
END = 1_800_000
Sent = tuple[str, str, str, int]

builder = StreamsBuilder("timed")
grouped = builder.stream("events", key=str, value=str).group_by_key()
grouped.windowed_by(Windows.tumbling("1s")).count(name="seconds", retention="25m")
grouped.windowed_by(Windows.hopping("1m", every="20s", grace="10s")).count(name="minutes")
grouped.windowed_by(Windows.sliding("5s")).count(name="sliding")
grouped.windowed_by(Windows.session("10s", grace="10m")).count(name="sessions")
grouped.windowed_by(Windows.unlimited()).count(name="ever")
grouped.count(name="totals")
builder.table("prices", key=str, value=int, versioned="10m", name="prices")
topology = builder.build()


def records() -> Iterator[Sent]:
    """Yield records: those of "a" make more windows than fit in one answer between processes.

    "c" stops early, so its rows are past their retention; "d" comes once, at the end, and a price once, at the start.
    """
    yield "prices", PRICES[3], "1", 1000
    for time in range(0, END, 1000):
        yield "events", "a", "x", time
        if time % 7000 == 0:
            yield "events", "b", "x", time + 500
        if time < 200_000 and time % 45_000 < 20_000:
            yield "events", "c", "x", time
        if time % 60_000 == 0:
            yield "events", "dd", "x", time
            yield "prices", PRICES[time // 60_000 % 3], str(time), time
    yield "events", "d", "x", END


def expected() -> Driver:
    driver = Driver(topology, partitions=PARTITIONS)
    for topic, key, value, time in records():
        driver.send(topic, int(value) if topic == "prices" else value, key=key, timestamp=time)
    return driver


def fill(log: EmbeddedLog) -> int:
    """Return the number of records."""
    parts: dict[TopicPartition, list[Any]] = {}
    for topic, key, value, time in records():
        target = TopicPartition(topic, partition_of(key.encode(), PARTITIONS))
        data = int(value).to_bytes(8) if topic == "prices" else value.encode()
        parts.setdefault(target, []).append((key.encode(), data, time))
    for topic in ("events", "prices"):
        log.create(Topic(topic, PARTITIONS))
    for target, rows in parts.items():
        keys, values, times = map(list, zip(*rows, strict=True))
        log.append(target, Columns(keys, values, times))
    return sum(map(len, parts.values()))


def process_all(folder: Path) -> Path:
    """Make a log in which everything is processed, and its stores; return the folder."""
    log = EmbeddedLog(folder / "log")
    sent = fill(log)
    with host(topology, f"embedded:{folder / 'log'}", state_dir=str(folder / "state")) as app:
        until(lambda: (metrics := app.metrics()) and metrics.records == sent)
    log.close()
    return folder
