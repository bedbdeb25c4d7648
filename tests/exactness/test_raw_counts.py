"""A count after its own repartition topic works on keys as bytes; every reader sees decoded keys."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder
from streamtopo.testing import Driver, DriverRecord

NUMBERS = [3, 1, 3, 2, 300, 1, 3, None, 300, -1]
COUNTS = {3: 3, 1: 2, 2: 1, 300: 2, -1: 1}


def counting(builder: StreamsBuilder, kind: type = int) -> None:
    stream = builder.stream("in", key=str, value=int)
    counts = stream.group_by(lambda key, value: None if value is None else kind(value), key=kind).count(name="counts")
    counts.to_stream().to("out")


def send(driver: Driver) -> None:
    driver.send_all([DriverRecord("in", "k", number, 100 - at) for at, number in enumerate(NUMBERS)])


@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize("kind", [int, str, float])
def test_every_reader_sees_decoded_keys(chunk: int, kind: type) -> None:
    builder = StreamsBuilder("app")
    counting(builder, kind)
    driver = Driver(builder.build(), chunk=chunk)
    send(driver)
    expected = {kind(number): count for number, count in COUNTS.items()}
    assert driver.read("app-counts-repartition") == [(kind(n), n) for n in NUMBERS if n is not None]
    assert dict(driver.read("out")) == expected
    assert {key: driver.store("counts").get(key) for key in expected} == expected


def test_raw_keys_are_used_only_if_equal_keys_have_equal_bytes() -> None:
    raw = []
    for kind in (int, float):
        builder = StreamsBuilder("app")
        counting(builder, kind)
        (source,) = [one for one in builder.build().sources if one.topics == ("counts-repartition",)]
        raw.append(source.raw)
        assert (source.key.name, source.value.name) == (kind.__name__, "int")
    assert raw == [True, False]


@pytest.mark.parametrize("chunk", [1, 100])
def test_joins_see_the_same_counts(chunk: int) -> None:
    builder = StreamsBuilder("app")
    numbers = builder.stream("in", key=str, value=int)
    grouped = numbers.filter(lambda key, value: value is not None).select_key(lambda key, value: value, key=int)
    counts = grouped.group_by_key().count(name="counts")
    names = builder.table("names", key=int, value=str)
    builder.stream("asked", key=int, value=str).join(counts, lambda asked, count: f"{asked} {count}").to("found")
    counts.join(names, lambda count, name: f"{name} {count}", value=str).to_stream().to("named")
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all([DriverRecord("names", 3, "three", 0), DriverRecord("asked", 3, "before", 1)])
    send(driver)
    driver.send_all([DriverRecord("asked", 3, "after", 200), DriverRecord("asked", 7, "never", 201)])
    assert driver.read("found") == [(3, "after 3")]
    assert driver.read("named")[-1] == (3, "three 3")


@pytest.mark.parametrize("chunk", [1, 100])
def test_the_highest_time_counts_in_any_order(chunk: int) -> None:
    builder = StreamsBuilder("app")
    counting(builder)
    driver = Driver(builder.build(), chunk=chunk)
    send(driver)
    times = {record.key: record.timestamp for record in driver.records("out")}
    assert times == {3: 100, 1: 99, 2: 97, 300: 96, -1: 91}
