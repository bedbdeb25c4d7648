"""Values that JSON would not return unchanged: the error names their record, or only that record is skipped."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.errors import StepError
from streamtopo.testing import Driver, DriverRecord


@dataclass
class Range:
    low: float = 0
    high: float = 0.0
    seen: dict[bool, int] = field(default_factory=dict)
    last: Any = None


def widened(key: str, value: float, row: Range) -> Range:
    positive = value > 0
    seen = {**row.seen, positive: row.seen.get(positive, 0) + 1}
    return Range(min(row.low, value), max(row.high, value), seen, None if value < 0 else [value])


def as_dict(key: str, value: float, row: dict[str, Any]) -> dict[str, Any]:
    row["sum"] = row["sum"] + value
    row["values"].append(value)
    return row


SHAPES = {
    "dataclass": lambda grouped: grouped.aggregate(Range, widened, value=Range, name="s"),
    "dict": lambda grouped: grouped.aggregate(lambda: {"sum": 0, "values": []}, as_dict, value=dict, name="s"),
    "union": lambda grouped: grouped.aggregate(
        lambda: 0, lambda key, value, row: value if value > 5 else row + 1, value=int | float, name="s"
    ),
    "windows": lambda grouped: grouped.windowed_by(Windows.tumbling("1s")).aggregate(
        Range, widened, value=Range, name="s"
    ),
}


def topology(shape: str) -> Topology:
    builder = StreamsBuilder("values")
    grouped = builder.stream("in", key=str, value=float).group_by_key()
    table = SHAPES[shape](grouped)
    table.to_stream().select_key(lambda key, value: str(key)).to("out", key=str)
    return builder.build()


numbers = st.floats(-1e9, 1e9) | st.integers(-9, 9).map(float) | st.sampled_from([math.inf, -math.inf, math.nan, 7.0])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cache", [0, 10**6])
@given(values=st.lists(st.tuples(st.sampled_from("ab"), numbers), max_size=8))
@settings(max_examples=15, deadline=None)
def test_a_restart_after_each_record_changes_nothing(shape: str, cache: int, values: list[tuple[str, float]]) -> None:
    undisturbed, restarted = (Driver(topology(shape), cache=cache, on_error="skip") for _ in range(2))
    outputs: list[list[Any]] = [[], []]
    for time, (key, value) in enumerate(values):
        for driver, output in zip((undisturbed, restarted), outputs, strict=True):
            driver.send("in", value, key=key, timestamp=time)
            output.extend(driver.read("out"))
        restarted.crash()
        restarted.restart()
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("cache", [0, 10**6])
def test_only_the_bad_record_is_skipped(cache: int) -> None:
    driver = Driver(topology("dict"), cache=cache, on_error="skip")
    values = [1.0, math.nan, 2.0, math.inf, 3.0]
    driver.send_all(DriverRecord("in", "k", value, time) for time, value in enumerate(values))
    assert driver.store("s").get("k") == {"sum": 6.0, "values": [1.0, 2.0, 3.0]}
    assert driver.worker.metrics().skipped == 2


@pytest.mark.parametrize("cache", [0, 10**6])
def test_the_error_names_the_bad_record(cache: int) -> None:
    driver = Driver(topology("dataclass"), cache=cache)
    with pytest.raises(StepError, match=r"in/0 offset 1: the value does not fit: Range.high: JSON has no inf"):
        driver.send_all(DriverRecord("in", "k", value, 0) for value in (1.0, math.inf, 2.0))
