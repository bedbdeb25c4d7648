"""Joins of streams, with streams and with tables: the user's programs, one oddity each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import KStream, Processor, ProcessorContext, Record, StreamsBuilder, Topology
from streamtopo.errors import TopologyError
from streamtopo.testing import Driver


def topology(describe: Callable[[StreamsBuilder, KStream, KStream], KStream]) -> Topology:
    builder = StreamsBuilder("joins")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    describe(builder, left, right).to("out")
    return builder.build()


def plus(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def test_the_joiner_can_have_the_key() -> None:
    driver = Driver(
        topology(lambda _, left, right: left.join(right, lambda k, a, b: f"{k}:{a}{b}", within="1s", with_key=True))
    )
    driver.send("left", "a", key="k")
    driver.send("right", "b", key="k")
    assert driver.read("out") == [("k", "k:ab")]


def test_with_a_table_too() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        return left.left_join(right.to_table(), lambda k, a, b: f"{k}:{a}{b}", with_key=True)

    driver = Driver(topology(describe))
    driver.send("left", "a", key="k")
    driver.send("right", "b", key="k")
    driver.send("left", "a", key="k")
    assert driver.read("out") == [("k", "k:aNone"), ("k", "k:ab")]


def test_sides_whose_key_changed_meet_in_one_task() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        return left.select_key(lambda _, value: value[0]).join(
            right.select_key(lambda _, value: value[0]), plus, within=5
        )

    driver = Driver(topology(describe), partitions=3)
    for number in range(9):
        driver.send("left", f"{number}l", key=f"left{number}", timestamp=number)
        driver.send("right", f"{number}r", key=f"right{number}", timestamp=number)
    assert sorted(driver.read("out")) == [(str(number), f"{number}l+{number}r") for number in range(9)]


def test_rows_without_a_key_survive_a_repartition_where_the_join_wants_them() -> None:
    def describe(how: str) -> Topology:
        return topology(lambda _, left, right: getattr(left.select_key(lambda key, _: key), how)(right, plus, within=5))

    outputs = {}
    for how in ("join", "left_join", "outer_join"):
        driver = Driver(describe(how))
        driver.send("left", "a")
        driver.send("right", "b")
        outputs[how] = driver.read("out")
    assert outputs == {
        "join": [],
        "left_join": [(None, "a+None")],
        "outer_join": [(None, "a+None"), (None, "None+b")],
    }


def test_joins_of_one_stream_share_its_repartition_topic_unless_they_are_named() -> None:
    def describe(builder: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        moved, table = left.select_key(lambda key, _: key), right.to_table()
        moved.join(table, plus).to("out")
        moved.join(table, plus, name="apart").to("out")
        return moved.join(table, plus)

    assert list(topology(describe).repartitions) == ["KSTREAM-KEY-SELECT-0000000002-repartition", "apart-repartition"]


def test_given_names() -> None:
    text = topology(lambda _, left, right: left.left_join(right, plus, within=1, name="meet", store="met")).describe()
    for name in ("meet-this-windowed", "meet-other-windowed", "meet-this-join", "meet-outer-other-join", "meet-merge"):
        assert f"Processor: {name} " in text
    for store in ("met-this-join-store", "met-outer-other-join-store", "met-left-shared-join-store"):
        assert store in text


def test_headers_are_those_of_the_record_that_makes_the_row_go_out() -> None:
    driver = Driver(topology(lambda _, left, right: left.left_join(right, plus, within=5)))
    driver.send("left", "a", key="k", timestamp=0, headers=(("from", b"a"),))
    driver.send("left", "b", key="k", timestamp=100, headers=(("from", b"b"),))
    assert [(row.value, row.headers) for row in driver.records("out")] == [("a+None", (("from", b"b"),))]


def test_a_table_of_the_joins_own_results() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        joined = left.join(right, plus, within=10)
        return left.left_join(joined.to_table(), plus)

    driver = Driver(topology(describe))
    for topic, value in (("left", "a"), ("right", "b"), ("left", "c")):
        driver.send(topic, value, key="k", timestamp=0)
    assert driver.read("out") == [("k", "a+None"), ("k", "c+c+b")]


class Rows(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store("met-this-join-store")

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(str(self.rows.approximate_num_entries())))


def test_a_processor_that_looks_into_a_joins_store_sees_what_is_there_at_its_record() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        left.join(right, plus, within=10, store="met").to("joined")
        return left.process(Rows, stores=["met-this-join-store"])

    for chunk in (1, 10_000):
        driver = Driver(topology(describe), chunk=chunk)
        driver.send_all([("left", "k", "a", time, -1, ()) for time in range(3)])  # type: ignore[misc]
        assert driver.read("out") == [("k", "1"), ("k", "2"), ("k", "3")]


def test_what_was_joined_is_dropped_and_counted() -> None:
    driver = Driver(topology(lambda _, left, right: left.join(right, plus, within=10)))
    driver.send("left", "a")
    driver.send("right", None, key="k")
    assert driver.dropped() == {"null key or value": 2}


def test_a_joiner_that_raises_leaves_nothing_behind() -> None:
    def fussy(left: str, right: str) -> str:
        if "bad" in (left, right):
            raise ValueError("bad")
        return plus(left, right)

    driver = Driver(topology(lambda _, left, right: left.join(right, fussy, within=10)), on_error="skip")
    sent = [("left", "a"), ("right", "b"), ("right", "bad"), ("left", "c")]
    driver.send_all([(topic, "k", value, time, -1, ()) for time, (topic, value) in enumerate(sent)])  # type: ignore[misc]
    assert driver.read("out") == [("k", "a+b"), ("k", "c+b")]


WRONG: dict[str, Callable[[StreamsBuilder, Any, Any], Any]] = {
    "which times match": lambda _, left, right: left.join(right, plus),
    "before and after": lambda _, left, right: left.join(right, plus, before=5),
    "ends before it begins": lambda _, left, right: left.join(right, plus, before=5, after=-6),
    "grace -1 ms": lambda _, left, right: left.join(right, plus, within=5, grace=-1),
    "keys are str and int": lambda b, left, _: left.join(b.stream("x", key=int), plus, within=1),
    "keys are str and bytes": lambda b, left, _: left.join(b.table("x"), plus),
    "has no option within": lambda _, left, right: left.join(right.to_table(), plus, within=5),
    "has no option withn": lambda _, left, right: left.join(right, plus, withn=5),
    "takes a joiner": lambda _, left, right: left.join(right, within=5),
    "cannot be outer-joined": lambda _, left, right: left.outer_join(right.to_table(), plus),
    "cannot be inner-joined with 'right'": lambda _, left, __: left.join("right", plus, within=5),
    "different builders": lambda _, left, __: left.join(StreamsBuilder("o").stream("x", key=str), plus, within=5),
    "keeps no history": lambda _, left, right: left.join(right.to_table(), plus, grace=5),
    "keeps 4 ms of history": lambda _, left, right: left.join(right.to_table(versioned=4), plus, grace=5),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be(wrong: str) -> None:
    builder = StreamsBuilder("wrong")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    with pytest.raises(TopologyError, match=wrong.replace("before and after", "before= and after=")):
        WRONG[wrong](builder, left, right)
