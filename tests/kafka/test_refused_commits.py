"""Commits that are refused again and again: what was sent is sent again, and nothing is lost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.logs import CommitResult, Outcome, Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.kafka.group import writers
from streamtopo.records import Columns, Position, TopicPartition
from tests.crash.apps import catch_up
from tests.kafka.brokers import emptied
from tests.logs.child import until

pytestmark = pytest.mark.kafka

RECORDS, KEYS, PARTITIONS = 2_000, 20, 2
WRITERS: dict[str, Any] = {"at-least-once": writers.AtLeastOnceWriter, "exactly-once": writers.TransactionalWriter}


def checked() -> Topology:
    """Numbers are counted behind a repartition topic; each hundredth is a dead letter."""

    def check(number: int) -> int:
        if number % 100 == 7:
            raise ValueError(f"{number} is wrong")
        return number

    builder = StreamsBuilder("refused")
    numbers = builder.stream("in", value=int).map_values(check)
    numbers.to("numbers")
    numbers.group_by(lambda _, number: number % KEYS, key=int).count(name="counts").to_stream().to("counts")
    return builder.build()


@pytest.fixture(params=WRITERS)
def refusing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """About half of the commits are refused, when some of what was sent is on its way, and some is not."""
    rng, kind = Random(int(os.environ.get("STREAMTOPO_SEED", 19))), WRITERS[request.param]
    commit, in_a_row = kind.commit, 0

    def refuse(self: Any, positions: Mapping[TopicPartition, Position], consumer: Any) -> CommitResult:
        nonlocal in_a_row
        in_a_row = in_a_row + 1 if in_a_row < 4 and rng.random() < 0.5 else 0
        if in_a_row:
            return CommitResult(Outcome.NOT_DONE, reason="the test refuses it")
        answer: CommitResult = commit(self, positions, consumer)
        return answer

    monkeypatch.setattr(kind, "commit", refuse)
    yield request.param
    monkeypatch.undo()


def all_is_shown(log: KafkaLog, place: TopicPartition) -> bool:
    return log.stable_end(place) == log.end(place)


def written(log: KafkaLog, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """All records of a topic. The broker shows the last ones a moment after their commit."""
    found: list[tuple[bytes | None, bytes | None]] = []
    for place in (TopicPartition(topic, partition) for partition in range(PARTITIONS)):
        until(partial(all_is_shown, log, place))
        columns = log.read(place, 0, 100_000).columns
        found += zip(columns.keys, columns.values, strict=True)
    return found


def test_nothing_is_lost(kafka: str, tmp_path: Path, refusing: str) -> None:
    log = emptied(kafka)
    for topic in ("in", "numbers", "counts"):
        log.create(Topic(topic, PARTITIONS))
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        log.append(
            TopicPartition("in", partition),
            Columns([None] * len(numbers), [number.to_bytes(8) for number in numbers], [1] * len(numbers)),
        )
    options: dict[str, Any] = {"guarantee": refusing, "on_error": "dead_letter", "chunk": 100, "commit_interval": 0}
    worker = Worker(checked(), log=kafka, state_dir=str(tmp_path), **options)
    catch_up(worker)
    worker.close()
    good = [number for number in range(RECORDS) if number % 100 != 7]
    numbers_written = Counter(int.from_bytes(value or b"") for _, value in written(log, "numbers"))
    letters = Counter(int.from_bytes(value or b"") for _, value in written(log, "dlq.refused"))
    counts = {key: int.from_bytes(value or b"") for key, value in written(log, "counts")}
    assert numbers_written.keys() == set(good)
    assert letters.keys() == set(range(7, RECORDS, 100))
    exact = Counter(number.to_bytes(8) for number in [good % KEYS for good in good])
    assert all(counts[key] >= exact[key] for key in exact)
    if refusing == "exactly-once":
        assert {*numbers_written.values(), *letters.values()} == {1}
        assert counts == exact
    log.close()
