"""A counting topology, and a log for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Log, Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition

PATIENCE = "60s"
PARTITIONS = 3


def counting(look: Callable[[str], Any] = lambda value: value, name: str = "counting") -> Topology:
    builder = StreamsBuilder(name)
    stream = builder.stream("in", key=str, value=str).map_values(look)
    stream.group_by_key().count(name="counts").to_stream().to("out")
    return builder.build()


def send(log: Log, *keys: str, value: str = "x") -> None:
    for key in keys:
        target = TopicPartition("in", partition_of(key.encode(), PARTITIONS))
        log.append(target, Columns([key.encode()], [value.encode()], [1000]))


def until(condition: Callable[[], object]) -> None:
    """Wait, for example, for the stores, which are updated shortly after the log."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.001)


def outputs(log: Log) -> Iterable[tuple[str, int]]:
    for number in range(PARTITIONS):
        columns = log.read(TopicPartition("out", number), 0, 1 << 40).columns
        for key, value in zip(columns.keys, columns.values, strict=True):
            yield (key or b"").decode(), int.from_bytes(value or b"", "big")


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"state_dir": str(tmp_path / "state")}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'log'}"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """The log at `url`, with its topics."""
    one = EmbeddedLog(tmp_path / "log")
    for name in ("in", "out"):
        one.create(Topic(name, PARTITIONS))
    yield one
    one.close()
