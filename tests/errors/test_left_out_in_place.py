"""Rows on which a step fails while others go on in the same round: it is as if their records had never been sent."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import KStream, StreamsBuilder
from streamtopo.engine.task.rounds import Round
from streamtopo.testing import Driver, DriverRecord


def checked(value: int) -> int:
    if value < 0:
        raise ValueError(value)
    return value


def listed(key: Any, value: int, row: list[int]) -> list[int]:
    row.append(value)  # in place, also if it fails after that
    checked(value)
    return row


def aggregated(stream: KStream) -> None:
    stream.group_by_key().aggregate(list, listed, value=list, name="rows").to_stream().to("out")
    stream.to("copies")


def reduced(stream: KStream) -> None:
    stream.group_by_key().reduce(lambda row, value: row + checked(value), name="rows").to_stream().to("out")


def several_rows_of_a_record(stream: KStream) -> None:
    """What was added of the same record must be undone."""
    aggregated(stream.flat_map_values(lambda value: [1, value, 2]))


def several_tables(stream: KStream) -> None:
    stream.group_by_key().aggregate(list, lambda k, v, row: [*row, v], value=list, name="first").to_stream().to("out")
    aggregated(stream)


def cogrouped(stream: KStream) -> None:
    other = stream.map_values(lambda value: value // 2)
    grouped = stream.group_by_key().cogroup(listed).cogroup(other.group_by_key(), listed)
    grouped.aggregate(list, value=list, name="rows").to_stream().to("out")


def behind_a_table(stream: KStream) -> None:
    rows = stream.group_by_key().aggregate(list, lambda k, v, row: [*row, v], value=list, name="rows").to_stream()
    rows.map_values(lambda row: checked(row[-1]), value=int).to("out")


PROGRAMS: list[Callable[[KStream], None]] = [
    aggregated,
    reduced,
    several_rows_of_a_record,
    several_tables,
    cogrouped,
    behind_a_table,
]


def results(program: Callable[[KStream], None], sent: list[DriverRecord], cache: int) -> dict[str, Any]:
    builder = StreamsBuilder("left-out")
    program(builder.stream("in", key=str, value=int))
    driver = Driver(builder, on_error="dead_letter", cache=cache)
    for first in range(0, len(sent), 20):  # from the second time on, failures are expected
        driver.send_all(sent[first : first + 20])
    topics = [sink for sink in ("out", "copies") if sink in {node.topic for node in driver.topology.sinks}]
    found: dict[str, Any] = {topic: driver.read(topic) for topic in topics}
    return found | {
        "rows": dict(driver.store("rows").all()),
        "letters": [int.from_bytes(letter.value or b"", signed=True) for letter in driver.dead_letters()],
    }


@pytest.mark.parametrize(
    ("program", "cache"),
    [(program, 0) for program in PROGRAMS]
    + [(program, 1_000_000) for program in PROGRAMS if program != behind_a_table],
)
def test_only_the_record_that_fails_is_missing(program: Callable[[KStream], None], cache: int) -> None:
    values = [-number if number % 7 == 5 else number for number in range(1, 100)]
    sent = [DriverRecord("in", "abc"[value % 3], value, 0) for value in values]
    good = [record for record in sent if record.value > 0]
    failed = results(program, sent, cache)
    assert failed.pop("letters") == [value for value in values if value < 0]
    calm = results(program, good, cache)
    assert calm.pop("letters") == []
    if cache:  # they are forwarded at other moments
        failed, calm = failed["rows"], calm["rows"]
    assert failed == calm


@pytest.mark.parametrize("cache", [0, 1_000_000])
def test_a_joiner_fails(cache: int) -> None:
    builder = StreamsBuilder("joins")
    prices = builder.table("prices", key=str, value=int)
    orders = builder.stream("orders", key=str, value=int)
    paid = orders.join(prices, lambda count, price: checked(count) * price, value=int)
    paid.group_by_key().aggregate(list, listed, value=list, name="rows").to_stream().to("out")
    driver = Driver(builder, on_error="dead_letter", cache=cache)
    for _ in range(2):
        driver.send("prices", 2, key="a")
        driver.send_all([DriverRecord("orders", "a", count, 0) for count in (1, -2, 3)])
        driver.send("prices", -1, key="a")
        driver.send("orders", 5, key="a")
    assert dict(driver.store("rows").all()) == {"a": [2, 6, 2, 6]}
    letters = [int.from_bytes(letter.value or b"", signed=True) for letter in driver.dead_letters()]
    assert letters == [-2, 5, -2, 5]


def refused(stream: KStream) -> None:
    wrong: Any = str
    stream.map_values(lambda value: value if value > 0 else wrong(value)).to("out")


@pytest.mark.parametrize("program", [*PROGRAMS, refused])
def test_rows_beside_those_that_fail_are_freed_at_once(
    program: Callable[[KStream], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Without the garbage collector, which may let them use memory for a long time."""
    caplog.set_level(logging.ERROR, "streamtopo")  # pytest keeps what is logged, with its errors
    builder = StreamsBuilder("freed")
    program(builder.stream("in", key=str, value=int))
    driver = Driver(builder, on_error="skip")
    send(driver)
    gc.collect()
    before = rounds()
    gc.disable()
    try:
        send(driver)
        assert rounds() == before
    finally:
        gc.enable()


def send(driver: Driver) -> None:
    driver.send_all([DriverRecord("in", "a", value, 0) for value in (1, -2, 3, 4, -5, 6)])
    driver.send_bytes("in", b"no int")
    driver.worker.commit()


def rounds() -> int:
    return sum(isinstance(one, Round) for one in gc.get_objects())


def test_a_coroutine_that_fails_for_some_records_is_called_once_for_each() -> None:
    called: list[int] = []

    async def look_up(value: int) -> int:
        called.append(value)
        return checked(value)

    builder = StreamsBuilder("looking-up")
    builder.stream("in", key=str, value=int).map_values_async(look_up).to("out")
    driver = Driver(builder, on_error="dead_letter")
    driver.send("in", -1, key="a")  # from now on, failures are expected
    called.clear()
    values = [1, -2, 3, 4, -5, 6, 7, 8, 9, 10]
    driver.send_all([DriverRecord("in", "a", value, 0) for value in values])
    assert sorted(called) == sorted(values)
    assert [value for _, value in driver.read("out")] == [value for value in values if value > 0]
    assert [int.from_bytes(letter.value or b"", signed=True) for letter in driver.dead_letters()] == [-1, -2, -5]
