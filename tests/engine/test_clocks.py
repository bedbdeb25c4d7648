"""A task's clocks are read by queries, in other threads, while its operators add to them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from streamtopo.engine.clocks import Clocks, PutTimes


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_a_stores_time_is_that_of_what_was_put_into_it() -> None:
    clocks = Clocks()
    clocks["counts"].time, clocks["counts/newest"].time, clocks["counts lowest"].time = 3, 5, 9
    assert (clocks.observed("counts"), clocks.observed("other")) == (5, -1)


def test_what_is_put_past_the_bound_says_how_far_rows_go_and_not_what_has_expired() -> None:
    clocks = Clocks()
    clocks.bound.time = 10
    times = PutTimes(clocks, "counts", lambda: 0)
    for time in (7, 11, 6):
        times.put(time)
    assert (times.time, times.latest, clocks.times()) == (7, 11, {"counts/put": 7, "counts/latest": 11})
    PutTimes(clocks, "counts", lambda: 11).put(9)  # while a record is processed that is too far ahead itself
    assert times.time == 7


@pytest.mark.usefixtures("threads_take_turns_often")
def test_they_can_be_read_while_they_grow() -> None:
    clocks = Clocks()
    clocks["counts"].time = 1
    done = threading.Event()

    def grow() -> None:
        for number in range(20_000):
            clocks[f"counts/{number}"].time = number
        done.set()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        while not done.is_set():
            assert clocks.observed("counts") == 1
    finally:
        thread.join()
