"""Coroutines in a topology: many at once, results in order, failures at their record, no early commit."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import StepError, TopologyError
from streamtopo.testing import Driver, DriverRecord


def sent(*values: Any) -> list[DriverRecord]:
    return [DriverRecord("in", str(value), value, time) for time, value in enumerate(values)]


def driver_of(function: Any, *, on_error: str = "fail", **options: Any) -> Driver:
    builder = StreamsBuilder("awaiting")
    builder.stream("in", key=str, value=int).map_values_async(function, **options).to("out")
    return Driver(builder.build(), on_error=on_error)


def test_results_keep_the_order_of_the_records() -> None:
    """The later a record, the sooner its call ends."""
    ended: list[int] = []

    async def slow(value: int) -> int:
        while value < 9 and value + 1 not in ended:
            await asyncio.sleep(0)
        ended.append(value)
        return value * 10

    driver = driver_of(slow)
    driver.send_all(sent(*range(10)))
    assert ended == [*range(9, -1, -1)]
    assert [value for _, value in driver.read("out")] == [*range(0, 100, 10)]


def test_the_number_of_concurrent_calls_is_limited() -> None:
    under_way, most = 0, 0

    async def counted(value: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        under_way -= 1
        return value

    driver_of(counted, concurrency=3).send_all(sent(*range(50)))
    assert most == 3


def test_a_failed_call_is_retried() -> None:
    tries: Counter[int] = Counter()

    async def flaky(value: int) -> int:
        tries[value] += 1
        if tries[value] <= value:
            raise ConnectionError("not now")
        return value

    driver = driver_of(flaky, retries=2)
    driver.send_all(sent(0, 1, 2))
    assert (tries, [value for _, value in driver.read("out")]) == ({0: 1, 1: 2, 2: 3}, [0, 1, 2])


def test_a_failed_call_names_its_record_and_keeps_earlier_results() -> None:
    async def picky(value: int) -> int:
        if value == 2:
            raise ValueError("not two")
        return value

    driver = driver_of(picky)
    with pytest.raises(
        StepError,
        match=r'"KSTREAM-MAPVALUES-0000000001" \(picky, test_coroutines.py:.*failed on in/0 offset 2.*not two',
    ):
        driver.send_all(sent(0, 1, 2, 3))
    assert [value for _, value in driver.read("out")] == [0, 1]

    driver = driver_of(picky, on_error="skip")
    driver.send_all(sent(0, 1, 2, 3))
    assert [value for _, value in driver.read("out")] == [0, 1, 3]


def test_a_call_that_never_ends_times_out() -> None:
    async def stuck(value: int) -> None:
        await asyncio.Event().wait()

    with pytest.raises(StepError, match=r"in/0 offset 0: .*no result within 0.01 seconds, tried 2 times"):
        driver_of(stuck, timeout="10ms", retries=1).send_all(sent(1))


def test_each_key_and_value_is_passed_to_the_function() -> None:
    calls: list[tuple[str, int]] = []

    async def note(key: str, value: int) -> None:
        calls.append((key, value))

    builder = StreamsBuilder("awaiting")
    builder.stream("in", key=str, value=int).for_each_async(note, concurrency=1)
    Driver(builder.build()).send_all(sent(1, 2, 3))
    assert calls == [("1", 1), ("2", 2), ("3", 3)]


def test_coroutines_work_in_a_service_with_an_event_loop() -> None:
    async def service() -> list[Any]:
        async def doubled(value: int) -> int:
            await asyncio.sleep(0)
            return value * 2

        driver = driver_of(doubled)
        driver.send_all(sent(1, 2))
        return driver.read("out")

    assert asyncio.run(service()) == [("1", 2), ("2", 4)]


def test_invalid_options_are_found_when_the_topology_is_described() -> None:
    with pytest.raises(TopologyError, match="concurrency=0: give a whole number of at least 1"):
        driver_of(None, concurrency=0)
    with pytest.raises(TopologyError, match=r"timeout=0\.0"):
        driver_of(None, timeout=0)
