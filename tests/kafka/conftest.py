"""Fixtures for most tests with a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamtopo.logs.kafka import KafkaLog
from tests.kafka.brokers import emptied
from tests.kafka.workers.lives import prepare


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    """Yield a log with the topics that the workers of `lives.py` count."""
    log = emptied(kafka)
    prepare(log)
    yield log
    log.close()
