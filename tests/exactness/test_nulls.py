"""Nulls everywhere: as a key, as a value, as the result of a function."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder
from streamtopo.testing import Driver, DriverRecord


def driven(builder: StreamsBuilder, chunk: int) -> Driver:
    driver = Driver(builder.build(), chunk=chunk)
    rows = [("a", "1"), (None, "2"), ("b", None), (None, None), ("a", "3"), ("a", None), ("a", "4")]
    driver.send_all([DriverRecord("in", key, value, time) for time, (key, value) in enumerate(rows)])
    return driver


CHUNKS = pytest.mark.parametrize("chunk", [1, 100])


@CHUNKS
def test_nulls_in_a_stream(chunk: int) -> None:
    builder = StreamsBuilder("app")
    stream = builder.stream("in", key=str, value=str)
    stream.to("same")
    stream.map_values(lambda value: None if value == "3" else value).to("mapped")
    stream.map(lambda key, value: (value, key)).to("swapped")
    driver = driven(builder, chunk)
    same = [("a", "1"), (None, "2"), ("b", None), (None, None), ("a", "3"), ("a", None), ("a", "4")]
    assert driver.read("same") == same
    assert driver.read("mapped") == [(key, None if value == "3" else value) for key, value in same]
    assert driver.read("swapped") == [(value, key) for key, value in same]


@CHUNKS
def test_nulls_in_a_table(chunk: int) -> None:
    builder = StreamsBuilder("app")
    builder.table("in", key=str, value=str, name="rows").to_stream().to("out")
    driver = driven(builder, chunk)
    assert driver.read("out") == [("a", "1"), ("b", None), ("a", "3"), ("a", None), ("a", "4")]
    assert list(driver.store("rows").all()) == [("a", "4")]


@CHUNKS
def test_nulls_in_an_aggregation(chunk: int) -> None:
    builder = StreamsBuilder("app")
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(name="counts").to_stream().to("counted")
    grouped.aggregate(
        list, lambda _, value, seen: None if value == "3" else [*(seen or []), value], name="seen", value=list
    ).to_stream().to("aggregated")
    driver = driven(builder, chunk)
    assert driver.read("counted") == [("a", 1), ("a", 2), ("a", 3)]
    assert driver.read("aggregated") == [("a", ["1"]), ("a", None), ("a", ["4"])]
    assert list(driver.store("seen").all()) == [("a", ["4"])]
