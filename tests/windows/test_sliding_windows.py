"""Sliding windows: one ends at each record, and one starts right after it."""

from __future__ import annotations

from streamtopo import Windowed, Windows
from streamtopo.testing import Driver
from tests.windows.counting import counting


def last_counts(*times: int) -> dict[Windowed, int]:
    driver = Driver(counting(Windows.sliding(10, grace=100)))
    for time in times:
        driver.send("in", "x", key="k", timestamp=time)
    return dict(driver.read("out"))


def test_records_within_the_difference_share_a_window() -> None:
    assert last_counts(100, 110) == {
        Windowed("k", 90, 100): 1,  # ends at the first record
        Windowed("k", 101, 111): 1,  # starts right after it
        Windowed("k", 100, 110): 2,  # ends at the second record
    }


def test_records_that_are_further_apart_share_none() -> None:
    assert last_counts(100, 111) == {Windowed("k", 90, 100): 1, Windowed("k", 101, 111): 1}


def test_a_late_record_joins_the_windows_around_it() -> None:
    counts = last_counts(100, 110, 105)
    assert counts[Windowed("k", 100, 110)] == 3
    assert counts[Windowed("k", 95, 105)] == 2
