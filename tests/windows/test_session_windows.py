"""Session windows."""

from __future__ import annotations

from streamtopo import (
    StreamsBuilder,
    Windowed,
    Windows,
)
from streamtopo.testing import Driver
from tests.windows.counting import counting, grouped, send


def test_a_record_between_two_sessions_joins_them() -> None:
    driver = Driver(counting(Windows.session(10, grace=100)))
    send(driver, ("k", 0), ("k", 15), ("k", 8))
    assert dict(driver.read("out")) == {
        Windowed("k", 0, 0): None,
        Windowed("k", 15, 15): None,
        Windowed("k", 0, 15): 3,
    }


def test_an_adder_that_raises_half_way_changes_nothing() -> None:
    def append(_: str, value: str, row: list[str]) -> list[str]:
        row.append(value)
        if value == "bad":
            raise ValueError(value)
        return row

    builder = StreamsBuilder("raises")
    windowed = grouped(builder).windowed_by(Windows.session(10))
    windowed.aggregate(list, append, lambda key, one, other: one + other, value=list).to_stream().to("out")
    driver = Driver(builder.build(), on_error="skip")
    for value in ("a", "bad", "b"):
        driver.send("in", value, key="k", timestamp=5)
    assert driver.read("out") == [(Windowed("k", 5, 5), ["a"]), (Windowed("k", 5, 5), ["a", "b"])]
