"""Joins find each row of a suppressed table as it was last forwarded, also when time advances without a record."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import KTable, StreamsBuilder, Topology, Windows, until_time_limit
from streamtopo.testing import Driver, DriverRecord

HOW = ["join", "left_join", "outer_join"]
IDLE = 1000


def pair(one: Any, other: Any) -> list[Any]:
    return [one, other]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("chunk", [1, 10_000])
def test_a_suppressed_table_joined_with_itself(how: str, chunk: int) -> None:
    builder = StreamsBuilder("suppressed")
    table = builder.stream("in", key=str, value=str).to_table().suppress(until_time_limit(10))
    joined: KTable = getattr(table, how)(table.map_values(str.upper), pair, value=list)
    joined.to_stream().to("out")
    driver = Driver(builder.build(), chunk=chunk)
    rows = [("a", "x", 0), ("a", "y", 1), ("b", "z", 20), ("a", "w", 21), ("c", "v", 40)]
    driver.send_all(DriverRecord("in", key, value, time) for key, value, time in rows)
    found = [("a", ["y", "Y"]), ("b", ["z", "Z"]), ("a", ["w", "W"])]
    assert driver.read("out") == [row for row in found for _ in range(2)]


def is_of(side: str, _: str, value: list[Any]) -> bool:
    return bool(value[0] == side)


def two_suppressed(how: str) -> Topology:
    """Join two suppressed tables, and count the joined rows."""
    builder = StreamsBuilder("suppressed")
    both = builder.stream("in", key=str, value=list)  # one topic, so that the order of records is the same in any chunk
    left, right = (
        both.filter(partial(is_of, side)).to_table().suppress(until_time_limit(10)) for side in ("left", "right")
    )
    joined: KTable = getattr(left, how)(right, pair)
    joined.to_stream().to("rows")
    joined.group_by(lambda *_: ("all", 1), key=str, value=int).count().to_stream().to("count")
    return builder.build()


UPDATES = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 4)),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("how", HOW)
@given(updates=UPDATES, idle=st.sets(st.integers(0, 12)), chunk=st.sampled_from([1, 10_000]))
def test_joined_rows_are_counted_once(
    how: str, updates: list[tuple[str, str, int, int]], idle: set[int], chunk: int
) -> None:
    driver = Driver(two_suppressed(how), idle_advance=IDLE, wall_clock_ms=0, chunk=chunk)
    time = 0
    for place, (side, key, value, later) in enumerate(updates):
        time += later
        driver.send("in", [side, value], key=key, timestamp=time)
        if place in idle:
            driver.advance(wall_clock_ms=2 * IDLE)
            time = driver.wall_clock_ms
    for _ in range(2):
        driver.advance(wall_clock_ms=2 * IDLE)
    rows = {key for key, value in dict(driver.read("rows")).items() if value is not None}
    assert dict(driver.read("count")).get("all", 0) == len(rows)


def test_rows_taken_and_rows_released_in_the_same_idle_moment() -> None:
    """What closes at this moment is held back, and what was held back before is released."""
    builder = StreamsBuilder("suppressed")
    stream = builder.stream("in", key=str, value=str)
    windows = stream.group_by_key().windowed_by(Windows.tumbling(10), emit="on_close").reduce(str.__add__)
    held = windows.suppress(until_time_limit(1000))
    every = stream.group_by_key().windowed_by(Windows.tumbling(10, grace="1h")).reduce(str.__add__)
    held.outer_join(every, lambda one, other: f"{one} {other}").to_stream(lambda window, _: window.start, key=int).to(
        "out"
    )
    driver = Driver(builder.build(), idle_advance=IDLE, wall_clock_ms=0)
    for _ in range(2):
        driver.send("in", "x", key="a", timestamp=driver.wall_clock_ms)
        driver.advance(wall_clock_ms=2 * IDLE)
    driver.advance(wall_clock_ms=2 * IDLE)
    assert {(window, row) for window, row in driver.read("out")} == {(0, "x x"), (2000, "x x")}
