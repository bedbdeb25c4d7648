"""Clocks of operators, and what a task remembers of them at each commit."""

from __future__ import annotations

from streamtopo.engine.task.clocks import Clocks, PutTimes, latest_of, time_of
from streamtopo.engine.task.options import TaskOptions
from streamtopo.engine.task.progress import PlaceSnapshot, Progress
from streamtopo.records import Position, TopicPartition
from streamtopo.topology.clocks import Bound, OperatorClock

OPTIONS = TaskOptions(lambda: 0, lambda: None, steady_clock=lambda: 0)


def test_a_stores_time_is_the_highest_time_put_into_it() -> None:
    times = {"counts": 3, "counts/newest": 5, "counts lowest": 9, "counts/newest/seen": 7}
    assert (time_of("counts", times), time_of("other", times)) == (5, -1)
    assert (latest_of("counts", times), latest_of("counts", times | {"counts/latest": 8})) == (7, 8)


def test_puts_beyond_the_bound_move_the_latest_row_but_not_expiry() -> None:
    clocks = Clocks(Bound(time=10))
    times = PutTimes(clocks, "counts", lambda: 0)
    for time in (7, 11, 6):
        times.put(time)
    assert (times.time, times.latest, clocks.times()) == (7, 11, {"counts/put": 7, "counts/latest": 11})
    PutTimes(clocks, "counts", lambda: 11).put(9)  # while a record is processed that is itself too far ahead
    assert times.time == 7


def test_a_clock_stops_at_the_horizon_and_catches_up_when_it_moves() -> None:
    bound = Bound(time=100, horizon=10)
    clock = OperatorClock(bound=bound)
    assert clock.held_back(clock.see([3, 8, 5, 12, 900, 11])) == [3, 8, 8, 10, 10, 10]
    assert (clock.time, clock.seen, clock.observe(7), clock.catch_up()) == (10, 12, 10, False)
    bound.horizon = 5
    assert clock.held_back(clock.see([15])) == [10]  # a clock never goes back
    bound.horizon = 13
    assert (clock.catch_up(), clock.time, clock.observe(14), clock.seen) == (True, 13, 13, 15)
    bound.horizon = 99
    assert (clock.catch_up(), clock.time) == (True, 15)


def test_a_clock_that_is_held_back_remembers_what_it_has_seen() -> None:
    clocks = Clocks(Bound(horizon=10))
    late = clocks.clock("late")
    late.held_back(late.see([7, 20]))
    clocks.register("number").value = 4
    times = clocks.times()
    assert times == {"late": 10, "late/seen": 20, "number": 4}
    restored = Clocks(Bound())
    restored.recall(times)
    assert restored.times() == times
    clock = restored.clock("late")
    assert (clock.time, clock.seen, restored.register("number").value, restored.times()) == (10, 20, 4, times)
    assert (restored.catch_up(), clock.time, restored.times()) == (True, 20, {"late": 20, "number": 4})
    restored.restore(times)
    assert (clock.time, clock.seen) == (10, 20)


def test_other_threads_read_an_unchanging_copy() -> None:
    progress = Progress(OPTIONS, Bound())
    place = progress.open(TopicPartition("in", 0), Position(5))
    progress.clocks.clock("counts").reach(1)
    progress.write()
    before = progress.written
    progress.clocks.clock("counts").reach(2)
    progress.clocks.clock("counts/put").reach(9)
    place.move(8, 20)
    progress.dropped["late"] += 1
    places = {TopicPartition("in", 0): PlaceSnapshot(5, -1, None)}
    assert (before.time_of("counts"), before.places, dict(before.dropped)) == (1, places, {})
    assert progress.committed.time_of("counts") == -1
    progress.write()
    progress.commit()
    assert (progress.committed.time_of("counts"), progress.written) == (9, progress.committed)


def test_uncommitted_progress_is_undone() -> None:
    progress = Progress(OPTIONS, Bound())
    place = progress.open(TopicPartition("in", 0), Position(5))
    progress.write()
    progress.commit()
    place.move(8, 20)
    progress.stream_time.reach(20)
    progress.clocks.clock("counts").reach(20)
    progress.mark()
    place.move(9, 30)
    progress.undo()
    assert (place.offset, place.time, progress.time) == (8, 20, 20)
    progress.rollback()
    assert (place.offset, place.time, progress.time, progress.clocks.clock("counts").time) == (5, -1, -1, -1)
