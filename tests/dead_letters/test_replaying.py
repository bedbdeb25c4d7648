"""Who may replay, and what is remembered."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streamtopo.dead_letters import replaying
from streamtopo.dead_letters.done import Offsets, ranges_of
from streamtopo.dead_letters.listing import list_letters
from streamtopo.dead_letters.replaying import Targets, replay
from streamtopo.dead_letters.selection import Selection
from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from tests.dead_letters.writing import LETTERS, failure, write_letters

ALL = Selection()


@pytest.fixture
def log() -> MemoryLog:
    """With two letters in each partition."""
    log = MemoryLog()
    log.create(Topic("amounts", 2))
    for partition in (0, 1):
        write_letters(log, failure(1, partition=partition), failure(2, partition=partition), partition=partition)
    return log


def test_one_replay_runs_at_a_time(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "_PATIENCE", 0.1)
    other = log.join("dlq.orders.done", [(LETTERS,)])
    other.assignment()
    with pytest.raises(LogError, match=r'another replay of the dead letters in "dlq\.orders" is running'):
        replay(log, log.topics()[LETTERS], ALL, Targets(log))
    other.leave()
    assert replay(log, log.topics()[LETTERS], ALL, Targets(log)).to == Counter({"amounts": 4})


def test_letters_that_come_during_a_replay_are_left_to_the_next_one(log: MemoryLog) -> None:
    """Here the replayed records are such letters themselves: they have no source any more."""
    topic = log.topics()[LETTERS]
    assert replay(log, topic, ALL, Targets(log, LETTERS)).to == Counter({LETTERS: 4})
    assert list_letters(log, topic, ALL, 0).letters == 4


@pytest.mark.parametrize("seed", range(20))
def test_a_set_of_offsets(seed: int) -> None:
    chance = random.Random(seed)
    parts = [sorted(chance.sample(range(40), chance.randint(0, 12))) for _ in range(3)]
    offsets = Offsets(one for part in parts for one in ranges_of(part))
    inside = {offset for part in parts for offset in part}
    assert {offset for offset in range(50) if offset in offsets} == inside
    some = sorted(chance.sample(range(50), 20))
    rows = list(range(5, 20))
    assert list(offsets.others(some, rows)) == [row for row in rows if some[row] not in inside]
