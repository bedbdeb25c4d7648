"""The record cache holds back all but the last update of a key per commit, and changes nothing else."""

from __future__ import annotations

from typing import Any

from streamtopo import StreamsBuilder
from streamtopo.testing import Driver, DriverRecord

TRACE = (("trace", b"1"),)


def driver_of(builder: StreamsBuilder) -> Driver:
    return Driver(builder.build(), cache=1 << 20)


def sent(*rows: tuple[Any, Any, int]) -> list[DriverRecord]:
    return [DriverRecord("in", *row) for row in rows]


def test_an_older_record_does_not_move_a_rows_time_back() -> None:
    builder = StreamsBuilder("cache")
    builder.stream("in", key=str, value=str).group_by_key().count().to_stream().to("out")
    driver = driver_of(builder)
    driver.send_all(sent(("a", "x", 50), ("a", "x", 20), ("b", "x", 30), ("a", "x", 40)))
    assert [record[1:4] for record in driver.records("out")] == [("b", 1, 30), ("a", 3, 50)]
    driver.send_all(sent(("a", "x", 10)))
    assert [record[1:4] for record in driver.records("out")] == [("a", 4, 50)]


def test_a_deletion_has_the_time_and_headers_of_the_record_that_caused_it() -> None:
    builder = StreamsBuilder("cache")
    builder.stream("in", key=str, value=str).to_table(store="rows").to_stream().to("out")
    driver = driver_of(builder)
    driver.send_all(sent(("a", "x", 50), ("b", "x", 55)))
    driver.records("out")
    driver.send_all([DriverRecord("in", "a", None, 60, -1, TRACE), DriverRecord("in", "b", "y", 70)])
    assert [(r.key, r.value, r.timestamp, r.headers) for r in driver.records("out")] == [
        ("a", None, 60, TRACE),
        ("b", "y", 70, ()),
    ]


def test_chained_aggregations_are_flushed_in_order() -> None:
    """What the first one holds back must reach the second before that is flushed: all in one commit."""
    builder = StreamsBuilder("cache")
    first = builder.stream("in", key=str, value=str).group_by_key().count(name="first").to_stream()
    second = first.group_by_key(value=int).reduce(lambda row, value: row + value, name="second").to_stream()
    second.group_by_key().count(name="third").to_stream().to("out")
    driver = driver_of(builder)
    driver.send_all(sent(("a", "x", 1), ("a", "x", 2), ("b", "x", 3)))
    assert driver.read("out") == [("a", 1), ("b", 1)]
    assert [(key, driver.store("second").get(key)) for key in "ab"] == [("a", 2), ("b", 1)]
    driver.send_all(sent(("a", "x", 4)))
    assert driver.read("out") == [("a", 2)]
    assert driver.store("second").get("a") == 5


def test_last_values_and_times_are_the_same_without_the_cache() -> None:
    def last(cache: int) -> dict[Any, DriverRecord]:
        builder = StreamsBuilder("cache")
        stream = builder.stream("in", key=str, value=list)
        stream.group_by_key().aggregate(lambda: [], lambda _, value, row: row + value).to_stream().to("out")
        driver = Driver(builder.build(), cache=cache)
        driver.send_all(sent(*[("abc"[n % 3], [n], n * 7 % 5) for n in range(20)]))
        return {record.key: record for record in driver.records("out")}

    assert last(0) == last(1 << 20)


def test_changing_a_forwarded_value_in_place_does_not_change_the_row() -> None:
    """With and without the cache."""
    for cache in (0, 1 << 20):
        builder = StreamsBuilder("cache")
        table = builder.stream("in", key=str, value=list).to_table(store="rows")
        table.to_stream().for_each(lambda _, value: value.append("meddled"))
        driver = Driver(builder.build(), cache=cache)
        driver.send_all(sent(("a", ["x"], 1)))
        assert driver.store("rows").get("a") == ["x"]
