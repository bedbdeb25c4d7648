"""What tasks announce in repartition topics, and what a task remembers of it in its position."""

from __future__ import annotations

from random import Random

import orjson
import pytest

from streamtopo.engine.task.marks import Announcement, mark_columns, without_marks
from streamtopo.engine.task.options import TaskId
from streamtopo.engine.task.origins import Known, Origins, packed_origins, recalled
from streamtopo.records import Batch, Columns, TopicPartition
from streamtopo.windows import FOREVER

PARTITION = TopicPartition("in", 0)
ROOM = 2_700
IDS = [TaskId(0, 0), TaskId(0, 1), TaskId(2, 0)]


def unheard() -> Origins:
    return Origins(IDS, recalled(IDS, None, older=False))


def all_at(*times: int, caught_up: bool = False) -> list[Announcement]:
    return [Announcement(id, time, caught_up) for id, time in zip(IDS, times, strict=False)]


def test_marks_are_taken_out_and_rows_without_a_key_stay() -> None:
    mark = all_at(5, -1, 1 << 40, caught_up=True)
    marked = mark_columns(mark)
    assert (marked.keys, marked.values, marked.timestamps) == ([None], [None], [1 << 40])
    columns = Columns([b"k", None, None], [b"1", marked.values[0], b"3"], [1, 2, 3], [(), marked.headers[0], ()])  # type: ignore[index]
    batch, marks = without_marks(Batch(PARTITION, columns, range(7, 10), 10))
    assert (batch.columns, batch.offsets, batch.next_offset) == (
        Columns([b"k", None], [b"1", b"3"], [1, 3]),
        [7, 9],
        10,
    )
    assert marks == [(8, mark)]


def test_an_origin_that_announced_nothing_is_waited_for() -> None:
    origins = unheard()
    assert (origins.known.behind, origins.known.settled) == (-1, False)
    origins.note([(3, all_at(10, 20, caught_up=True))])
    origins.hear(before=4)
    assert origins.known.behind == -1
    origins.note([(4, all_at(10, 20, 30, caught_up=True))])
    origins.hear(before=5)
    assert (origins.known.behind, origins.known.lowest, origins.known.settled) == (FOREVER, 10, True)


def test_a_position_of_an_older_version_sets_no_limit_until_all_have_announced_their_time() -> None:
    origins = Origins(IDS, recalled(IDS, None, older=True))
    origins.note([(0, all_at(10, 20)), (1, all_at(10, 20, 30))])
    origins.hear(before=1)
    assert (origins.known.behind, origins.known.lowest, packed_origins(origins, ROOM)) == (FOREVER, FOREVER, None)
    origins.hear(before=2)
    assert (origins.known.behind, origins.known.lowest) == (10, 10)


def test_marks_count_again_after_a_rollback() -> None:
    origins = unheard()
    origins.note([(3, all_at(1, 1, 1)), (6, all_at(5, 5, 5)), (9, all_at(8, 8, 8))])
    origins.hear(before=4)
    committed = origins.known
    origins.hear(before=8)
    assert origins.known.behind == 5
    origins.go_back(committed, 4)
    assert origins.known.behind == 1
    origins.hear(before=7)
    assert origins.known.behind == 5
    origins.forget(before=7)
    origins.hear(before=10)
    assert origins.known.behind == 8


@pytest.mark.parametrize("seed", range(50))
def test_what_is_known_survives_a_restart(seed: int) -> None:
    random = Random(seed)
    ids = [TaskId(part, number) for part in (1, 4) for number in range(random.randrange(1, 40))]
    newest = random.choice([0, 5, 1_700_000_000_000])
    times = [random.choice([-2, -1, newest, random.randint(0, newest)]) for _ in ids]
    known = Known(tuple(times), tuple([time != -2 and random.random() < 0.5 for time in times]))
    packed = orjson.loads(orjson.dumps(packed_origins(Origins(ids, known), ROOM)))
    assert recalled(ids, packed, older=True) == known
    more = [*ids, TaskId(1, 99)]  # the topic has more partitions now
    assert recalled(more, packed, older=True) == Known((*known.times, -2), (*known.caught_up, False))


@pytest.mark.parametrize(
    ("count", "spread", "unit"), [(256, 86_400_000, 1), (256, 1 << 41, None), (1500, 1 << 41, None)]
)
def test_a_position_stays_small(count: int, spread: int, unit: int | None) -> None:
    """Times may be rounded, but only down: then clocks wait a little longer."""
    random, ids = Random(1), [TaskId(0, number) for number in range(count)]
    known = Known(tuple([random.randint(0, spread) for _ in ids]), (True,) * count)
    packed = packed_origins(Origins(ids, known), ROOM)
    assert packed is not None
    assert len(orjson.dumps(packed)) <= ROOM
    found = recalled(ids, packed, older=False)
    assert unit is None or found == known
    assert all(one <= other for one, other in zip(found.times, known.times, strict=True))
    assert max(known.times) - max(found.times) <= packed["unit"]


def test_too_many_origins_are_left_out() -> None:
    ids = [TaskId(0, number) for number in range(5000)]
    known = Known(tuple(range(5000)), (True,) * 5000)
    assert packed_origins(Origins(ids, known), ROOM) is None
