"""When a worker commits: when it has caught up or under load, and at what distances."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder, Worker
from streamtopo.engine.worker.pace import Pace
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.config import WorkerConfig


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


@pytest.mark.parametrize(
    ("commits", "apart"),
    [([], 1), ([0.5, 0.5], 1), ([9, 9], 9), ([9, 90], 9), ([90, 9], 9), ([190, 190], 100)],
)
def test_idle_commits_are_as_far_apart_as_they_are_long(commits: list[float], apart: int) -> None:
    clock = Clock()
    one = Pace(WorkerConfig(), clock)
    for ms in commits:
        with one.committing():
            clock.ms += ms
    one.committed()
    one.did(1)
    clock.ms += apart - 1
    assert not one.due(caught_up=True)
    clock.ms += 1
    assert one.due(caught_up=True)
    assert one.due(caught_up=False) == (apart == 100)


def test_without_a_pause_every_turn_that_catches_up_commits() -> None:
    one = Pace(WorkerConfig(commit_pause=0), Clock())
    with one.committing():
        pass
    one.did(1)
    assert one.due(caught_up=True)


def test_records_are_collected_until_a_commit_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    slept: list[float] = []
    one = Pace(WorkerConfig(commit_pause=8), clock)
    monkeypatch.setattr("streamtopo.engine.worker.pace.time.sleep", slept.append)
    one.rest(1.0)
    one.did(1)
    clock.ms = 3
    one.rest(1.0)
    one.rest(0.001)
    clock.ms = 9
    one.rest(1.0)
    assert slept == [0.005, 0.001, 0.0]


def test_a_worker_with_more_to_read_than_in_memory_has_not_caught_up() -> None:
    """It reads several rounds at once, and reads nothing while it processes them."""
    builder = StreamsBuilder("pace")
    builder.stream("in").to("out")
    log = MemoryLog()
    for name in ("in", "out"):
        log.create(Topic(name, 1))
    log.append(TopicPartition("in", 0), Columns([None] * 1000, [b"v"] * 1000, [0] * 1000))
    worker = Worker(builder.build(), log, chunk=20, commit_interval="1h")
    while log.end(TopicPartition("out", 0)) == 0:
        worker.run_once()
    assert log.end(TopicPartition("out", 0)) == 1000
    worker.close()
