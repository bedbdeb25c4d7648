"""How long the rows of windows are stored, and how long they can be read."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import (
    StreamsBuilder,
    Windows,
)
from streamtopo.errors import TopologyError
from streamtopo.testing import Driver
from tests.windows.counting import counting, grouped, send


def test_the_retention_must_cover_the_time_in_which_rows_can_change() -> None:
    windowed = grouped(StreamsBuilder("retention")).windowed_by(Windows.tumbling("10s", grace="5s"))
    with pytest.raises(TopologyError, match="keeps rows for 14999 ms, but these windows need them for 15000"):
        windowed.count(name="counts", retention=14_999)


def test_old_rows_are_deleted_and_nothing_is_forwarded() -> None:
    driver = Driver(counting(Windows.tumbling("1m")), cache=100_000)
    for minute in range(10):
        send(driver, ("a", 60_000 * minute))
    assert [total for _, total in driver.read("out")] == [1] * 10
    assert [window.start for window, _ in driver.store("counts").all()] == [60_000 * 9]
    (task,) = driver.worker.tasks.values()
    assert len(list(task.states["counts"].scan(b"", None))) == 3, "one segment more than the live ones"


@pytest.mark.parametrize(
    ("windows", "newer", "newest"),
    [
        (Windows.tumbling(10, grace=5), 19, 24),
        (Windows.hopping(10, every=3), 10, 13),
        (Windows.sliding(5, grace=3), 16, 20),
    ],
)
def test_a_row_can_be_read_until_newer_windows_expire_it(windows: Any, newer: int, newest: int) -> None:
    """Newer records are not enough: the time of the store is the last window's start, as in Kafka Streams."""
    driver = Driver(counting(windows))
    send(driver, ("old", 2), ("new", newer))
    driver.restart()
    assert driver.store("counts").fetch("old", 0) == 1
    send(driver, ("new", newest))
    assert driver.store("counts").fetch("old", 0) is None
