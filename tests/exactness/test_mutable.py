"""Values are not shared: an aggregator or a branch that changes its arguments in place changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, key_value_store
from streamtopo.testing import Driver
from tests.in_place import added

GROWING = [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("chunk", [1, 2, 10_000])
def test_an_aggregator_that_appends_in_place(chunk: int) -> None:
    builder = StreamsBuilder("mutable")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    rows = grouped.aggregate(list, lambda key, value, row: added(row, [value]), value=list, name="rows")
    rows.to_stream().to("out")
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all([("in", "k", value, 0, -1, ()) for value in (1, 2, 3)])  # type: ignore[misc]
    assert [value for _, value in driver.read("out")] == GROWING


def test_an_aggregator_whose_first_row_is_always_the_same_object() -> None:
    shared: list[int] = []
    builder = StreamsBuilder("mutable")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.aggregate(lambda: shared, lambda _, value, row: added(row, [value]), value=list).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("in", 1, key="a")
    driver.send("in", 2, key="b")
    assert (driver.read("out"), shared) == ([("a", [1]), ("b", [2])], [])


def test_a_reducer_that_extends_in_place() -> None:
    builder = StreamsBuilder("mutable")
    stream = builder.stream("in", key=str, value=list)
    stream.group_by_key().reduce(lambda row, value: added(row, value), name="rows").to_stream().to("out")
    stream.to("same")
    driver = Driver(builder.build())
    driver.send_all([("in", "k", [value], 0, -1, ()) for value in (1, 2, 3)])  # type: ignore[misc]
    assert [value for _, value in driver.read("out")] == GROWING
    assert [value for _, value in driver.read("same")] == [[1], [2], [3]]


def test_with_the_cache_each_commit_forwards_a_value_of_its_own() -> None:
    builder = StreamsBuilder("mutable")
    rows = (
        builder.stream("in", key=str, value=int)
        .group_by_key()
        .aggregate(list, lambda key, value, row: added(row, [value]), value=list, name="rows")
    )
    rows.to_stream().map_values(lambda row: added(row, ["seen downstream"])).to("out")
    driver = Driver(builder.build(), cache=100_000)
    for value in (1, 2, 3):
        driver.send("in", value, key="k")
    assert [value for _, value in driver.read("out")] == [[*row, "seen downstream"] for row in GROWING]
    assert driver.store("rows").get("k") == [1, 2, 3]


def appending(name: str) -> Callable[[list[Any]], list[Any]]:
    return lambda value: added(value, [name])


def emptied(_: object, value: list[Any]) -> bool:
    value.clear()
    return True


def test_branches_that_change_the_value_in_place() -> None:
    builder = StreamsBuilder("mutable")
    stream = builder.stream("in", value=list)
    for name in ("a", "b", "c"):
        stream.map_values(appending(name)).to("out")
    stream.to("out")
    driver = Driver(builder.build())
    driver.send("in", [])
    assert [value for _, value in driver.read("out")] == [["a"], ["b"], ["c"], []]


def test_a_filter_that_changes_its_row_affects_no_other_step() -> None:
    builder = StreamsBuilder("mutable")
    stream = builder.stream("in", value=list)
    stream.filter(emptied).to("emptied")
    stream.merge(stream).map_values(lambda value: added(value, ["x"])).to("out")
    driver = Driver(builder.build())
    driver.send("in", [1])
    assert [value for _, value in driver.read("out")] == [[1, "x"], [1, "x"]]
    assert driver.read("emptied") == [(None, [])]


class Changer(Processor):
    """Change what it received, what it forwarded, what it put and what it got."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store("rows")

    def process(self, record: Record) -> None:
        value: list[Any] = record.value
        self.context.forward(record)
        value.append("after the forward")
        self.rows.put(record.key, value)
        value.append("after the put")
        self.rows.get(record.key).append("to what was got")
        self.context.forward(record.with_value(self.rows.get(record.key)))


def test_a_processor_that_changes_every_value_it_can_reach() -> None:
    builder = StreamsBuilder("mutable")
    stream = builder.stream("in", key=str, value=list)
    stream.process_values(Changer, stores=[key_value_store("rows", key=str, value=list)]).to("out")
    stream.to("same")
    driver = Driver(builder.build())
    driver.send("in", [1], key="k")
    assert [value for _, value in driver.read("out")] == [[1], [1, "after the forward"]]
    assert driver.read("same") == [("k", [1])]
