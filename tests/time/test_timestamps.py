"""Where a record's time comes from, and what happens to records with an invalid time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Times, Timestamp
from streamtopo.errors import StepError, TopologyError
from streamtopo.testing import Driver, DriverRecord
from streamtopo.timestamps import TimestampLike


def driver(timestamp: TimestampLike | None, value: Any = dict, **options: Any) -> Driver:
    builder = StreamsBuilder("times")
    builder.stream("in", value=value, timestamp=timestamp).to("out")
    return Driver(builder.build(), **options)


def times(driver: Driver, *values: Any, log: int = 7) -> list[int]:
    for value in values:
        driver.send("in", value, timestamp=log)
    return [record.timestamp for record in driver.records("out")]


@pytest.mark.parametrize("log", [None, "log", Timestamp()])
def test_the_timestamp_of_the_log(log: TimestampLike | None) -> None:
    assert times(driver(log), {"at": 3}) == [7]


def test_a_field_of_the_value() -> None:
    assert times(driver("at"), {"at": 3}, {"at": 0}) == [3, 0]


def test_a_function_of_key_and_value() -> None:
    assert times(driver(lambda key, value: value["s"] * 1000), {"s": 3}) == [3000]


def test_a_function_that_gets_the_other_times() -> None:
    def at(key: Any, value: Any, times: Times) -> int:
        return {"log": times.log, "before": times.partition}.get(value, 50)

    assert times(driver(at, str), "new", "log", "before") == [50, 7, 50]


def test_parameters_with_defaults_are_left_to_the_user() -> None:
    function: Callable[..., int] = lambda key, value, unit=1000: value["s"] * unit  # noqa: E731
    assert times(driver(function), {"s": 3}) == [3000]


def test_an_invalid_time_is_skipped_and_counted() -> None:
    one = driver("at")
    assert times(one, {"at": -1}, {"at": 4}) == [4]
    assert one.dropped() == {"negative timestamp": 1}


def test_an_invalid_time_fails() -> None:
    with pytest.raises(StepError, match=r"in/0 offset 1.*negative"):
        times(driver(Timestamp("at", invalid="fail")), {"at": 4}, {"at": -1})


@pytest.mark.parametrize("chunk", [1, 2, 10_000])
def test_an_invalid_time_is_replaced_by_partition_time(chunk: int) -> None:
    one = driver(Timestamp("at", invalid="partition_time"), chunk=chunk)
    assert times(one, *({"at": time} for time in (4, 9, -1, 5, -1))) == [4, 9, 9, 5, 9]
    one.restart()
    assert times(one, {"at": -1}) == [9]


def test_partition_time_is_an_error_before_the_first_valid_time() -> None:
    with pytest.raises(StepError, match="no earlier record has a time"):
        times(driver(Timestamp("at", invalid="partition_time")), {"at": -1})


@pytest.mark.parametrize("value", [{}, {"at": "noon"}, {"at": 1.5}, {"at": True}])
def test_a_time_of_the_wrong_type_is_an_error_of_its_record_or_skipped(value: dict[str, Any]) -> None:
    with pytest.raises(StepError, match="in/0 offset 0"):
        times(driver("at"), value)
    assert times(driver("at", on_error="skip"), value, {"at": 2}) == [2]


@pytest.mark.parametrize("value", [{"on": 1}, None])
def test_a_missing_field_is_named(value: dict[str, Any] | None) -> None:
    with pytest.raises(StepError, match=r'in/0 offset 0: the timestamp is in field "at", which .* does not have'):
        driver("at").send("in", value)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(TopologyError, match="invalid='sometimes'"):
        Timestamp("at", invalid="sometimes")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="gives no timestamps"):
        StreamsBuilder("times").stream("in", timestamp=5)  # type: ignore[call-overload]


@pytest.mark.parametrize("take", ["at", lambda key, value: value["at"], lambda key, value, times: value["at"]])
def test_times_are_the_same_when_a_round_is_repeated(take: str | Callable[..., int]) -> None:
    """A step fails, so the round is repeated: the function is called again, and invalid times are still replaced."""

    def check(value: Any) -> int:
        return 10 // int(value["by"])

    builder = StreamsBuilder("again")
    stream = builder.stream("in", value=dict, timestamp=Timestamp(take, invalid="partition_time"))
    stream.map_values(check, value=int).to("out")
    one = Driver(builder.build(), on_error="skip")
    one.send("in", {"at": 5, "by": 1})
    one.send_all(DriverRecord("in", None, {"at": at, "by": by}, 0) for at, by in [(-1, 2), (7, 0), (-1, 5), (9, 10)])
    assert [(record.value, record.timestamp) for record in one.records("out")] == [(10, 5), (5, 5), (2, 7), (1, 9)]


def test_the_error_for_a_wrong_time_in_a_field_names_the_field() -> None:
    with pytest.raises(StepError, match="the field \"at\" has 'noon' as a timestamp; it must be milliseconds"):
        times(driver("at"), {"at": "noon"})


def test_the_error_for_a_datetime_says_how_to_make_milliseconds_of_it() -> None:
    def moment(_: Any, value: Any) -> Any:
        return datetime.fromtimestamp(value["at"], UTC)

    with pytest.raises(StepError, match=r"it must be milliseconds, .*: round\(time.timestamp\(\) \* 1000\)"):
        times(driver(moment), {"at": 3})
