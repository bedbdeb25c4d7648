"""Windows whose result is emitted once, when they close."""

from __future__ import annotations

from streamtopo import (
    Windowed,
    Windows,
)
from streamtopo.testing import Driver
from tests.windows.counting import counting, send


def test_an_emitted_window_is_not_emitted_again_after_a_crash() -> None:
    driver = Driver(counting(Windows.tumbling(10), emit="on_close"))
    send(driver, ("a", 5), ("a", 15))
    driver.crash()
    driver.restart()
    send(driver, ("a", 16), ("a", 2), ("a", 27))
    assert driver.read("out") == [(Windowed("a", 0, 10), 1), (Windowed("a", 10, 20), 2)]
    assert driver.dropped() == {"late": 1}
