"""The log in each of its fillings: what these tests say holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.memory import MemoryLog
from tests.kafka.brokers import emptied
from tests.logs.records import AnyLog, OwnLog


@pytest.fixture(params=["memory", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyLog]:
    """With a topic "t" of two partitions in it."""
    log = emptied(request.getfixturevalue("kafka")) if request.param == "kafka" else own(request.param, tmp_path)
    log.create(Topic("t", 2))
    yield log
    log.close()


@pytest.fixture(params=["memory", "embedded"])
def own_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnLog]:
    """The same, of the logs that we run ourselves: members can be evicted and topics compacted at once."""
    log = own(request.param, tmp_path)
    log.create(Topic("t", 2))
    yield log
    log.close()


def own(kind: str, folder: Path) -> OwnLog:
    return MemoryLog() if kind == "memory" else EmbeddedLog(folder / "log")
