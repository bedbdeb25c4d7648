"""Clocks of operators, and what a task remembers of them at each commit."""

from __future__ import annotations

from streamtopo.engine.task.clocks import Clocks, PutTimes
from streamtopo.engine.task.progress import Progress
from streamtopo.records import Position, TopicPartition


def test_a_stores_time_is_the_highest_time_put_into_it() -> None:
    clocks = Clocks()
    clocks["counts"].time, clocks["counts/newest"].time, clocks["counts lowest"].time = 3, 5, 9
    assert (clocks.observed("counts"), clocks.observed("other")) == (5, -1)


def test_puts_beyond_the_bound_move_the_latest_row_but_not_expiry() -> None:
    clocks = Clocks()
    clocks.bound.time = 10
    times = PutTimes(clocks, "counts", lambda: 0)
    for time in (7, 11, 6):
        times.put(time)
    assert (times.time, times.latest, clocks.times()) == (7, 11, {"counts/put": 7, "counts/latest": 11})
    PutTimes(clocks, "counts", lambda: 11).put(9)  # while a record is processed that is itself too far ahead
    assert times.time == 7


def test_other_threads_read_an_unchanging_copy() -> None:
    progress = Progress(lambda: 0)
    place = progress.open(TopicPartition("in", 0), Position(5))
    progress.clocks["counts"].time = 1
    progress.write()
    before = progress.written
    progress.clocks["counts"].time, progress.clocks["counts/put"].time = 2, 9
    place.move(8, 20)
    progress.dropped["late"] += 1
    assert (before.time_of("counts"), before.places, before.dropped) == (1, {TopicPartition("in", 0): (5, -1)}, {})
    assert progress.committed.time_of("counts") == -1
    progress.write()
    progress.commit()
    assert (progress.committed.time_of("counts"), progress.written) == (9, progress.committed)


def test_uncommitted_progress_is_undone() -> None:
    progress = Progress(lambda: 0)
    place = progress.open(TopicPartition("in", 0), Position(5))
    progress.write()
    progress.commit()
    place.move(8, 20)
    progress.time = progress.clocks["counts"].time = 20
    progress.mark()
    place.move(9, 30)
    progress.undo()
    assert (place.offset, place.time, progress.time) == (8, 20, 20)
    progress.rollback()
    assert (place.offset, place.time, progress.time, progress.clocks["counts"].time) == (5, -1, -1, -1)
