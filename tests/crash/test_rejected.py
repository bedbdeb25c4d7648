"""What an error policy writes about failed records appears once, however often the worker dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from tests.crash.apps import catch_up
from tests.crash.lives import DIED, Point, at, die, live

IN, OUT, LETTERS = (TopicPartition(name, 0) for name in ("in", "out", "letters"))
RECORDS = 200


def inverses() -> Topology:
    """Invert numbers: every third record is not a number, and every fifth is 0, at which a step fails."""
    builder = StreamsBuilder("rejected")
    builder.stream("in", key=int, value=int).map_values(lambda value: 100 // value).to("out")
    return builder.build()


def work(log_path: Path, state_dir: Path, point: Point | None = None) -> None:
    log = EmbeddedLog(log_path)
    options: dict[str, Any] = {
        "on_error": "dead_letter",
        "dead_letter_topic": "letters",
        "chunk": 4,
        "commit_interval": 1,
    }
    worker = Worker(inverses(), log, state_dir=str(state_dir), **options)
    if point is not None:
        at(point, die)
    catch_up(worker)
    worker.close()


@pytest.mark.parametrize("call", [1, 3])
@pytest.mark.parametrize(
    "place",
    [
        "streamtopo.engine.worker.worker:commit",
        "streamtopo.engine.task.task:Task.take_changes",
        "streamtopo.engine.program.program:Program.run_carefully",
        "streamtopo.engine.task.task:Task.committed",
        "streamtopo.logs.embedded.group.member:EmbeddedMember.commit",
    ],
)
def test_a_worker_dies_and_the_next_one_continues(tmp_path: Path, place: str, call: int) -> None:
    log = EmbeddedLog(tmp_path / "log")
    for part in (IN, OUT, LETTERS):
        log.create(Topic(part.topic, 1))
    keys = [number.to_bytes(8, "big") for number in range(RECORDS)]
    bad = dict.fromkeys(range(0, RECORDS, 3), b"bad")
    zeros = {number: bytes(8) for number in range(0, RECORDS, 5)}
    wrong = zeros | bad
    values = [wrong.get(number, key) for number, key in enumerate(keys)]
    log.append(IN, Columns(list(keys), list(values), [0] * RECORDS))
    for when in ("before", "after"):
        assert live(work, tmp_path / "log", tmp_path / "state", Point(place, when, call)) == DIED
    assert live(work, tmp_path / "log", tmp_path / "state") == 0
    letters = log.read(LETTERS, 0, 1000).columns
    assert sorted(zip(letters.keys, letters.values, strict=True)) == [(keys[n], wrong[n]) for n in sorted(wrong)]
    assert log.read(OUT, 0, 1000).columns.keys == [key for number, key in enumerate(keys) if number not in wrong]
    log.close()
