"""Records that are late for their windows, or have no key or no value."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import (
    Windowed,
    Windows,
)
from streamtopo.testing import Driver
from tests.windows.counting import counting, send


def test_late_records_are_counted_and_sent_to_their_own_topic() -> None:
    driver = Driver(counting(Windows.hopping(10, every=5), on_late="late"))
    send(driver, ("a", 19), ("a", 12), ("a", 4))
    assert [(record.key, record.value, record.timestamp) for record in driver.records("late")] == [("a", "v", 4)]
    assert driver.dropped() == {"late": 2}  # [5, 15) for one record, [0, 10) for the other
    assert [window.start for window, _ in driver.read("out")] == [10, 15, 10]


@pytest.mark.parametrize("windows", [Windows.tumbling(10), Windows.session(5), Windows.sliding(5)])
@pytest.mark.parametrize("cache", [0, 100_000])
def test_updates_are_not_sent_to_the_topic_of_late_records(windows: Any, cache: int) -> None:
    driver = Driver(counting(windows, on_late="late"), cache=cache)
    send(driver, ("a", 100), ("a", 3), ("b", 104))
    assert [(record.key, record.timestamp) for record in driver.records("late")] == [("a", 3)]
    assert {window.key for window, _ in driver.read("out")} == {"a", "b"}


def test_records_without_a_key_are_dropped_and_do_not_move_time() -> None:
    driver = Driver(counting(Windows.tumbling(10)))
    send(driver, ("a", 5), (None, 1000), ("a", 6))
    assert driver.read("out")[-1] == (Windowed("a", 0, 10), 2)
    assert driver.dropped() == {"null key": 1}


def test_records_without_a_value_count_except_in_sliding_windows() -> None:
    for windows, total in ((Windows.tumbling(10), 2), (Windows.session(10), 2), (Windows.sliding(10), 1)):
        driver = Driver(counting(windows))
        send(driver, ("a", 20))
        driver.send("in", None, key="a", timestamp=20)
        assert driver.read("out")[-1][1] == total
