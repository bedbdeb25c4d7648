"""With a real broker, and workers that are killed and stopped: no record in order is late after a repartition.

STREAMTOPO_LONG=1 runs the long tests: 200,000 records, and more kills.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo.logs.kafka import KafkaLog
from tests.crash.seconds import Counts, Faults, Workers, counts_after, create_topics, fill, truth
from tests.kafka.brokers import emptied
from tests.kafka.workers.lives import SOON
from tests.long import long

pytestmark = pytest.mark.kafka


def test_no_record_is_late(kafka: str, tmp_path: Path) -> None:
    assert counts(kafka, tmp_path, chunk=100, records=12_000, faults=4) == truth(12_000)


def test_without_transactions_no_record_is_late_or_lost(kafka: str, tmp_path: Path) -> None:
    found = counts(kafka, tmp_path, chunk=100, records=12_000, faults=4, guarantee="at-least-once")
    assert found.keys() == truth(12_000).keys()


@long
@pytest.mark.parametrize("chunk", [10_000, 500, 50])
def test_no_record_is_late_whatever_happens(kafka: str, tmp_path: Path, chunk: int) -> None:
    assert counts(kafka, tmp_path, chunk=chunk, records=200_000, faults=20) == truth(200_000)


@long
@pytest.mark.parametrize("chunk", [10_000, 500, 50])
def test_without_transactions_no_record_is_late_or_lost_whatever_happens(
    kafka: str, tmp_path: Path, chunk: int
) -> None:
    found = counts(kafka, tmp_path, chunk=chunk, records=200_000, faults=20, guarantee="at-least-once")
    assert found.keys() == truth(200_000).keys()


def counts(kafka: str, path: Path, *, chunk: int, records: int, faults: int, guarantee: str = "exactly-once") -> Counts:
    """Each user comes once in each second, so a record that is late leaves a window without a count."""
    log: KafkaLog = emptied(kafka)
    create_topics(log)
    fill(log, 0, records // 2)
    workers = Workers(kafka + SOON, path / "state", chunk=chunk, processes=3, guarantee=guarantee)
    try:  # the session is two seconds: a worker that is stopped for longer loses its tasks
        return counts_after(log, workers, seed=chunk, records=records, faults=Faults(faults, 3.0))
    finally:
        log.close()
