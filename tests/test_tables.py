"""Tables, one oddity at a time, as a user would write it down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from streamtopo import KTable, ProcessorContext, Record, StreamsBuilder, ValueTransformer, key_value_store
from streamtopo.errors import StepError, TopologyError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import OUTDATED, Chunk
from streamtopo.testing import Driver, DriverRecord


def scores(builder: StreamsBuilder, topic: str = "scores", name: str | None = None) -> KTable:
    return builder.table(topic, key=str, value=int, name=name)


def run(builder: StreamsBuilder, *sent: tuple[str, int | None], **options: Any) -> list[Any]:
    driver = Driver(builder.build(), **options)
    driver.send_all(DriverRecord("scores", key, value, time) for time, (key, value) in enumerate(sent))
    return driver.read("out")


# -- row by row


@pytest.mark.parametrize(("rows", "passing"), [("rows", None), ("rows", "passing"), (None, None), (None, "passing")])
def test_a_filter_of_rows_that_are_kept_deletes_only_what_passed(rows: str | None, passing: str | None) -> None:
    updates = [("a", 1), ("a", 5), ("a", 2), ("a", 3), ("b", None)]
    builder = StreamsBuilder("app")
    scores(builder, name=rows).filter(lambda _, score: score > 3, name=passing).to_stream().to("out")
    every = [("a", None), ("a", 5), ("a", None), ("a", None), ("b", None)]
    assert run(builder, *updates) == (every if rows is None else [("a", 5), ("a", None)])


def test_functions_are_not_called_where_there_is_no_row_but_transformers_are() -> None:
    builder = StreamsBuilder("app")
    table = scores(builder).map_values(lambda score: score + 1).filter_not(lambda _, score: score > 8)
    table.transform_values(lambda key, score: f"{key}{score}", value=str).to_stream().to("out")
    assert run(builder, ("a", 1), ("a", None), ("a", 8)) == [("a", "a2"), ("a", "aNone"), ("a", "aNone")]


@pytest.mark.parametrize("chunk", [1, 100])
def test_a_table_whose_values_change_in_place_keeps_its_own(chunk: int) -> None:
    builder = StreamsBuilder("app")
    lists = builder.table("scores", key=str, value=list, name="lists")
    longer = lists.map_values(lambda row: row.append("mapped") or row, name="longer")
    longer.group_by(lambda key, row: (row.append("grouped") or key, row)).reduce(
        lambda row, value: row.append("added") or row, lambda row, value: row.append("removed") or row, name="reduced"
    )
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all(DriverRecord("scores", "k", [value], value) for value in (1, 2))
    assert [driver.store(name).get("k") for name in ("lists", "longer", "reduced")] == [
        [2],
        [2, "mapped"],
        [1, "mapped", "grouped", "removed", "added"],
    ]


def test_a_table_as_a_stream_by_another_key() -> None:
    builder = StreamsBuilder("app")
    scores(builder).to_stream(lambda key, score: score, key=int).map_values(str, value=str).to("out")
    assert run(builder, ("a", 1)) == [(1, "1")]


# -- transformers


class Difference(ValueTransformer):
    """To the last score that was seen, whoever's it was."""

    def init(self, context: ProcessorContext) -> None:
        self.last = context.get_state_store("last")
        context.schedule(100, "stream_time", lambda time: self.last.delete("score"))

    def transform(self, key: str, value: int | None) -> int | None:
        before = self.last.get("score") or 0
        self.last.put("score", value)
        return None if value is None else value - before


@pytest.mark.parametrize("name", ["differences", None])
@pytest.mark.parametrize("chunk", [1, 100])
def test_a_transformer_with_a_store_and_calls_of_its_own(name: str | None, chunk: int) -> None:
    builder = StreamsBuilder("app")
    table = scores(builder).transform_values(
        Difference, stores=[key_value_store("last", key=str, value=int)], name=name
    )
    table.to_stream().to("out")
    if name is not None:
        table.left_join(scores(builder), lambda difference, score: difference + (score or 0)).to_stream().to("sums")
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all(DriverRecord("scores", "ab"[time % 2], time, time) for time in (10, 13, 21))
    driver.send("scores", 5, key="a", timestamp=105)
    driver.send("scores", 7, key="a", timestamp=110)
    assert [value for _, value in driver.read("out")] == [10, 13, 8, -16, 7]
    if name is not None:
        assert dict(driver.store(name).all()) == {"a": 7, "b": 8}
        assert driver.read("sums")[-1] == ("a", 14)


def test_old_values_are_transformed_too_where_they_are_needed() -> None:
    builder = StreamsBuilder("app")
    table = scores(builder).transform_values(lambda key, score: -1 if score is None else score * 10)
    table.group_by(lambda _, score: ("all", score)).reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("out")
    assert [value for _, value in run(builder, ("a", 1), ("b", 2), ("a", 3), ("b", None))] == [10, 31, 51, 30]


def test_transformers_that_forward_or_cannot_be_asked_again() -> None:
    class Forwarding(ValueTransformer):
        def transform(self, key: Any, value: Any) -> Any:
            self.context.forward(Record(key, value, 0))

    builder = StreamsBuilder("app")
    table = scores(builder).transform_values(Forwarding)
    with pytest.raises(TopologyError, match=r"keeps no rows.*name="):
        table.join(scores(builder), lambda one, other: one)
    with pytest.raises(TopologyError, match="a function cannot ask for them"):
        scores(builder).transform_values(lambda key, value: value, stores=[key_value_store("some")])
    table.to_stream().to("out")
    with pytest.raises(StepError, match="the transformer forwarded a record"):
        run(builder, ("a", 1))


# -- grouping


def test_a_row_that_changes_its_group_leaves_the_old_one_first() -> None:
    builder = StreamsBuilder("app")
    odd = scores(builder).group_by(lambda key, score: None if score < 0 else ("odd" if score % 2 else "even", score))
    odd.count(name="counts").to_stream().to("out")
    odd.aggregate(
        lambda: [], lambda _, score, row: [*row, score], lambda _, score, row: row[1:], value=list, name="all"
    )
    driver = Driver(builder.build())
    driver.send_all(DriverRecord("scores", *one) for one in [("a", 1, 0), ("a", 3, 1), ("a", 4, 2), ("a", -1, 3)])
    assert driver.read("out") == [("odd", 1), ("odd", 1), ("odd", 0), ("even", 1), ("even", 0)]
    assert dict(driver.store("all").all()) == {"odd": [], "even": []}
    assert driver.dropped() == {"null key or value": 1}


def test_a_named_group_has_one_repartition_topic() -> None:
    builder = StreamsBuilder("app")
    grouped = scores(builder).group_by(lambda key, score: (score, key), key=int, value=str, name="by-score")
    grouped.count(name="counts")
    grouped.reduce(lambda row, key: row + key, lambda row, key: row.replace(key, ""), name="keys")
    topology = builder.build()
    driver = Driver(topology, partitions=2)
    driver.send_all(DriverRecord("scores", key, score, 0, -1) for key, score in [("a", 1), ("b", 1), ("a", 2)])
    assert list(topology.repartitions) == ["by-score-repartition"]
    assert dict(driver.store("counts").all()) == {1: 1, 2: 1}
    assert dict(driver.store("keys").all()) == {1: "b", 2: "a"}


def test_a_function_that_returns_no_pair() -> None:
    builder = StreamsBuilder("app")
    scores(builder).group_by(lambda key, score: score).count()
    builder.stream("other").to("out")
    with pytest.raises(StepError, match=r"KTABLE-SELECT.*returned 1; return a pair"):
        run(builder, ("a", 1))


# -- the record cache


def test_with_the_cache_a_group_is_told_what_changed_since_the_last_commit() -> None:
    builder = StreamsBuilder("app")
    grouped = scores(builder).group_by(lambda key, score: ("all", score))
    seen: list[tuple[str, int]] = []

    def add(_: str, score: int, total: int) -> int:
        seen.append(("add", score))
        return total + score

    def take(_: str, score: int, total: int) -> int:
        seen.append(("take", score))
        return total - score

    grouped.aggregate(lambda: 0, add, take).to_stream().to("out")
    driver = Driver(builder.build(), cache=100_000)
    for batch in ([1, 2, 3], [4, 5], [6, None], [7, None]):
        driver.send_all(DriverRecord("scores", "a", score, 0) for score in batch)
    assert seen == [("add", 3), ("take", 3), ("add", 5), ("take", 5)]
    assert driver.read("out") == [("all", 3), ("all", 5), ("all", 0)]


# -- joins


def test_a_table_joined_with_itself_and_what_is_made_of_it() -> None:
    builder = StreamsBuilder("app")
    table = scores(builder)
    doubled = table.map_values(lambda score: score * 2)
    table.join(doubled, lambda one, two: [one, two], value=list).to_stream().to("out")
    assert run(builder, ("a", 1), ("a", 2), ("a", None)) == [("a", [1, 2])] * 2 + [("a", [2, 4])] * 2


def test_old_and_new_joined_values_share_nothing() -> None:
    def marked(score: int, row: list[str]) -> list[str]:
        row.append(str(score))
        return row

    builder = StreamsBuilder("app")
    lists = builder.table("lists", key=str, value=list)
    rows = scores(builder).join(lists, marked, value=list)
    rows.group_by(lambda key, row: (key, row)).reduce(lambda a, b: b, lambda a, b: ["not", *b]).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("lists", ["row"], key="a")
    for score in (1, 2):
        driver.send("scores", score, key="a")
    assert driver.read("out") == [("a", ["row", "1"]), ("a", ["row", "2"])]


def test_tables_that_cannot_be_joined() -> None:
    builder, other = StreamsBuilder("app"), StreamsBuilder("app")
    numbers = builder.table("numbers", key=int, value=int)
    with pytest.raises(TopologyError, match=r"keys of different types: str and int.*foreign_key="):
        scores(builder).join(numbers, max)
    with pytest.raises(TopologyError, match="a table joins with a table"):
        scores(builder).left_join(builder.stream("words", key=str), max)  # type: ignore[arg-type]
    for foreign_key in (None, lambda score: score):
        with pytest.raises(TopologyError, match="different builders"):
            scores(builder).left_join(scores(other), max, foreign_key=foreign_key)


@dataclass
class Order:
    customer: str | None
    cents: float


def orders(log: MemoryLog | None = None, **options: Any) -> Driver:
    builder = StreamsBuilder("app")
    table = builder.stream("orders", key=int, value=Order).map(lambda number, order: (number, order)).to_table()
    customers = (
        builder.stream("customers", key=bytes, value=str).select_key(lambda _, name: name[0], key=str).to_table()
    )
    table.join(
        customers,
        lambda order, name: f"{name} {order.cents}",
        foreign_key=lambda order: order.customer,
        value=str,
        name="named",
    ).to_stream().to("out")
    return Driver(builder.build(), log=log, **options)


def test_a_foreign_key_between_topics_of_different_partition_counts() -> None:
    log = MemoryLog()
    for topic, partitions in (("orders", 3), ("customers", 5)):
        log.create(Topic(topic, partitions))
    driver = orders(log)
    driver.send_all(DriverRecord("customers", b"", name, 0, place) for place, name in enumerate(["ann", "bob", "cid"]))
    driver.send_all(DriverRecord("orders", number, Order("abc"[number % 3], number), 1, -1) for number in range(9))
    driver.send("customers", "arthur", key=b"x", timestamp=5)
    expected = {number: f"{['arthur', 'bob', 'cid'][number % 3]} {number}" for number in range(9)}
    assert {key: value.removesuffix(".0") for key, value in driver.store("named").all()} == expected
    counts = {name: topic.partitions for name, topic in log.topics().items() if "subscription" in name}
    assert counts["app-named-subscription-registration-topic"] == 5
    assert counts["app-named-subscription-response-topic"] == 3


def test_a_row_that_comes_back_from_its_store_in_other_bytes_is_still_the_same_row() -> None:
    builder = StreamsBuilder("app")
    stream = builder.stream("orders", key=int, value=Order)
    table = stream.map_values(lambda order: Order(order.customer, 5)).to_table()  # 5 is read back as 5.0
    names = builder.table("names", key=str, value=str)
    table.join(names, lambda order, name: f"{name} {order.cents}", foreign_key=lambda order: order.customer, value=str)
    driver = Driver(builder.build())
    driver.send("orders", Order("a", 1), key=1)
    driver.crash()
    driver.restart()
    driver.send("names", "ann", key="a")
    assert "answer to an older row" not in driver.dropped()


def test_a_foreign_key_that_is_none_or_of_another_type() -> None:
    driver = orders()
    driver.send("orders", Order(None, 1.0), key=1)
    driver.send("orders", Order("a", 1.0), key=1)
    driver.send("orders", Order(None, 2.0), key=1)
    assert (driver.read("out"), driver.dropped()["null foreign key"]) == ([(1, None)], 2)
    builder = StreamsBuilder("app")
    scores(builder).join(scores(builder, "other"), max, foreign_key=lambda score: score).to_stream().to("out")
    with pytest.raises(StepError, match=r"the key does not fit: expected str, got int"):
        run(builder, ("a", 1))


def test_answers_go_back_to_the_partition_that_the_row_came_from() -> None:
    builder = StreamsBuilder("app")
    left = scores(builder)
    names = builder.table("names", key=int, value=str)
    left.left_join(
        names, lambda score, name: f"{score} {name}", foreign_key=lambda score: score, value=str, name="both"
    )
    driver = Driver(builder.build(), partitions=4)
    for partition in range(4):
        driver.send("scores", 7, key=f"k{partition}", partition=partition)
    driver.send("names", "seven", key=7)
    assert [value for _, value in driver.store("both").all()] == ["7 seven"] * 4


# -- versions


def test_updates_that_were_out_of_order_stay_marked_and_join_nothing() -> None:
    from streamtopo.operators.derived import derived, mapping
    from streamtopo.operators.foreign_key import in_order

    updates = Chunk(["a", "b"], [1, 2], [0, 0], old=[OUTDATED, 1])
    double = mapping(lambda value: value * 2, with_key=False)
    for sends_old, old in ((True, [OUTDATED, 2]), (False, [OUTDATED, None])):
        step = derived(double, sends_old=sends_old)
        assert step(updates) == Chunk(["a", "b"], [2, 4], [0, 0], old=old)
    dropped: list[tuple[str, int]] = []
    assert in_order(updates, lambda *one: dropped.append(one)).keys == ["b"]
    assert dropped == [("out of order", 1)]


def test_a_test_can_put_many_rows_each_into_its_task() -> None:
    builder = StreamsBuilder("app")
    builder.table("scores", key=str, value=int, name="scores")
    driver = Driver(builder.build(), partitions=3)
    driver.store("scores").put_all([(name, place) for place, name in enumerate("abcdef")])
    assert [driver.store("scores").get(name) for name in "abcdef"] == [*range(6)]


def test_to_table_names_its_store_by_store_and_its_node_by_name() -> None:
    builder = StreamsBuilder("named")
    stream = builder.stream("in", key=str, value=str)
    node, kept = stream.to_table(name="node"), stream.to_table(store="kept")
    assert (node.node, node.store, kept.store) == ("node", None, "kept")
    driver = Driver(builder.build())
    driver.send("in", "value", key="k")
    assert driver.store("kept").get("k") == "value"
