"""The log in each of its fillings: what these tests say holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.memory import MemoryLog
from tests.logs.records import AnyLog


@pytest.fixture(params=["memory", "embedded"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyLog]:
    """With a topic "t" of two partitions in it."""
    log = MemoryLog() if request.param == "memory" else EmbeddedLog(tmp_path / "log")
    log.create(Topic("t", 2))
    yield log
    log.close()
