"""Workers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.integrations.faust.workers import FaustWorker


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "log")
    yield log
    log.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., FaustWorker]]:
    workers: list[FaustWorker] = []

    def start(app: str, port: int = 0) -> FaustWorker:
        workers.append(FaustWorker(tmp_path, app, port))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()
