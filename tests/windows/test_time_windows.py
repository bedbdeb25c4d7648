"""Tumbling, hopping and unlimited windows."""

from __future__ import annotations

from streamtopo import Windowed, Windows
from streamtopo.testing import Driver
from tests.windows.counting import counting


def counts(windows: Windows, *times: int) -> list[tuple[Windowed, int]]:
    driver = Driver(counting(windows))
    for time in times:
        driver.send("in", "x", key="k", timestamp=time)
    return [(key, count) for key, count in driver.read("out")]


def test_tumbling_windows_start_at_multiples_of_their_size() -> None:
    assert counts(Windows.tumbling(10), 0, 9, 10) == [
        (Windowed("k", 0, 10), 1),
        (Windowed("k", 0, 10), 2),
        (Windowed("k", 10, 20), 1),
    ]


def test_a_record_is_in_each_hopping_window_that_contains_its_time() -> None:
    assert counts(Windows.hopping(10, every=5, grace=10), 7, 12) == [
        (Windowed("k", 0, 10), 1),
        (Windowed("k", 5, 15), 1),
        (Windowed("k", 5, 15), 2),
        (Windowed("k", 10, 20), 1),
    ]


def test_records_before_the_start_of_unlimited_windows_are_ignored() -> None:
    ((window, count),) = counts(Windows.unlimited(5), 4, 5)
    assert (window.start, count) == (5, 1)
