"""Built-in aggregators: in groups, in windows, in sessions that merge."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder, Windowed, Windows, aggregators
from streamtopo.aggregators import Aggregator, collect, first, last, mean, top_k
from streamtopo.errors import StepError, TopologyError
from streamtopo.testing import Driver, DriverRecord


def results(aggregator: Aggregator, *values: float) -> list[Any]:
    """Return the forwarded rows, one per value; then the row of sessions that the last value merges."""
    builder = StreamsBuilder("ready")
    builder.stream("in", key=str, value=float).group_by_key().aggregate(aggregator).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send_all(DriverRecord("in", "k", value, time) for time, value in enumerate(values))
    return [value for _, value in driver.read("out")]


def merged(aggregator: Aggregator, *values: float) -> Any:
    """Return the row after the last value, in the middle, has merged two sessions."""
    builder = StreamsBuilder("ready")
    grouped = builder.stream("in", key=str, value=float).group_by_key()
    grouped.windowed_by(Windows.session("10ms", grace="1s")).aggregate(aggregator).to_stream().to("out")
    driver = Driver(builder.build())
    *ends, middle = values
    for time, value in zip((0, 20), ends, strict=True):
        driver.send("in", value, key="k", timestamp=time)
    driver.send("in", middle, key="k", timestamp=10)
    key, value = driver.read("out")[-1]
    assert key == Windowed("k", 0, 20)
    return value


@pytest.mark.parametrize(
    ("aggregator", "expected", "session"),
    [
        (aggregators.sum(), [4.0, 5.0, 7.0], 7.0),
        (aggregators.min(), [4.0, 1.0, 1.0], 1.0),
        (aggregators.max(), [4.0, 4.0, 4.0], 4.0),
        (mean(), [4.0, 2.5, 7 / 3], 7 / 3),
        (first(value=float), [4.0, 4.0, 4.0], 4.0),
        (last(value=float), [4.0, 1.0, 2.0], 2.0),
        (top_k(2), [[4.0], [4.0, 1.0], [4.0, 2.0]], [4.0, 2.0]),
        (collect(), [[4.0], [4.0, 1.0], [4.0, 1.0, 2.0]], [4.0, 1.0, 2.0]),
        (collect(most=2), [[4.0], [4.0, 1.0], [1.0, 2.0]], [1.0, 2.0]),
    ],
)
def test_each_aggregator(aggregator: Aggregator, expected: list[Any], session: Any) -> None:
    assert results(aggregator, 4.0, 1.0, 2.0) == expected
    assert merged(aggregator, 4.0, 1.0, 2.0) == session


def test_the_value_to_aggregate_and_the_value_to_compare() -> None:
    assert results(aggregators.sum(lambda value: int(value), value=int), 1.5, 2.5) == [1, 3]
    ranked: Aggregator = top_k(2, lambda value: [value, "x"], by=lambda pair: -pair[0])
    assert results(ranked, 3.0, 1.0, 2.0)[-1] == [[1.0, "x"], [2.0, "x"]]


@pytest.mark.parametrize(
    ("aggregator", "expected"),
    [
        (aggregators.sum(), 2**60 + 3),
        (aggregators.min(), 2),
        (aggregators.max(), 2**60 + 1),
        (first(), 2**60 + 1),
        (last(), 2),
        (mean(), (2**60 + 3) / 2),
        (top_k(2), [2**60 + 1, 2]),
        (collect(), [2**60 + 1, 2]),
    ],
)
@pytest.mark.parametrize("windowed", [False, True])
def test_ints_stay_ints(aggregator: Aggregator, expected: Any, windowed: bool) -> None:
    builder = StreamsBuilder("ints")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    table = (grouped.windowed_by(Windows.session("10ms")) if windowed else grouped).aggregate(aggregator)
    table.to_stream().select_key(lambda key, value: None).to("out")
    driver = Driver(builder.build())
    for value in (2**60 + 1, 2):
        driver.send("in", value, key="k")
        driver.crash()
        driver.restart()
    found = driver.read("out")[-1][1]
    assert (found, type(found)) == (expected, type(expected))


def test_rows_have_the_type_of_the_values() -> None:
    builder = StreamsBuilder("ready")
    builder.stream("in", key=str, value=str).group_by_key().aggregate(first()).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("in", "a", key="k")
    assert driver.read("out") == [("k", "a")]


def test_an_int_too_large_for_a_float_is_not_added_to_one() -> None:
    with pytest.raises(StepError, match=r"is not exact as a float; give sum\(…, value=int\)"):
        results(aggregators.sum(lambda value: 2**60 + 1), 1.0)
    assert results(aggregators.sum(lambda value: 2**60 + 1, value=float), 1.0) == [2.0**60]


def test_named_aggregations_in_windows() -> None:
    builder = StreamsBuilder("ready")
    windows = builder.stream("in", key=str, value=float).group_by_key().windowed_by(Windows.tumbling("10ms"))
    windows.aggregate(mean(), name="means", retention="1m").to_stream().to("out")
    driver = Driver(builder.build())
    driver.send_all(DriverRecord("in", "k", value, time) for time, value in [(1, 2.0), (2, 4.0), (11, 6.0)])
    assert driver.read("out") == [
        (Windowed("k", 0, 10), 2.0),
        (Windowed("k", 0, 10), 3.0),
        (Windowed("k", 10, 20), 6.0),
    ]
    assert driver.store("means").fetch("k", 0) == [2, 6.0]


@pytest.mark.parametrize("windows", [None, Windows.tumbling("1s"), Windows.session("1s")])
def test_a_ready_made_aggregator_has_its_type_and_functions_itself(windows: Any) -> None:
    grouped: Any = StreamsBuilder("ready").stream("in", key=str, value=float).group_by_key()
    aggregated = grouped if windows is None else grouped.windowed_by(windows)
    with pytest.raises(TopologyError, match="give value= to the aggregator"):
        aggregated.aggregate(top_k(3), value=list[float])
    with pytest.raises(TopologyError, match="takes no functions with a ready-made aggregator"):
        aggregated.aggregate(mean(), lambda key, value, row: row)


def test_errors_name_the_mistake() -> None:
    with pytest.raises(TopologyError, match="give 1 or more"):
        top_k(0)
    with pytest.raises(TopologyError, match="give 1 or more"):
        collect(most=0)
    grouped = StreamsBuilder("ready").stream("in", key=str, value=float).group_by_key()
    for aggregated in (grouped, grouped.windowed_by(Windows.tumbling("1s"))):
        with pytest.raises(TopologyError, match=r"no adder; give aggregate\(init, adder\)"):
            aggregated.aggregate(lambda: 0.0)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match=r"no merger; give aggregate\(init, adder, merger\)"):
        grouped.windowed_by(Windows.session("1s")).aggregate(lambda: 0.0, lambda key, value, row: row + value)  # type: ignore[call-overload]


@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_the_type_of_rows_must_be_declared_if_it_is_not_that_of_the_values(cache: int) -> None:
    builder = StreamsBuilder("ready")
    strings = builder.stream("in", key=str, value=str).group_by_key()
    strings.aggregate(lambda: 0, lambda key, value, row: row + 1)  # type: ignore[arg-type, operator]
    expected = "in/0 offset 0: the value does not fit: expected str, got int 1; declare its type with value="
    with pytest.raises(StepError, match=expected):
        Driver(builder.build(), cache=cache).send("in", "a", key="k")


@pytest.mark.parametrize("make", [aggregators.sum, aggregators.max, mean, collect, lambda: last(value=float)])
def test_records_without_a_value_are_ignored_in_windows_as_in_groups(make: Any) -> None:
    builder = StreamsBuilder("ready")
    windows = builder.stream("in", key=str, value=float).group_by_key().windowed_by(Windows.tumbling("10ms"))
    windows.aggregate(make()).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send_all(DriverRecord("in", "k", value, time) for time, value in [(0, None), (1, 4.0), (2, None)])
    (_, before), (_, after) = driver.read("out")[-2:]
    assert before == after in (4.0, [4.0])
