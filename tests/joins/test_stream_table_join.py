"""Joins of a stream with a table in users' programs, one special case per test."""

from __future__ import annotations

from streamtopo import KStream, StreamsBuilder
from streamtopo.testing import Driver
from tests.joins.two_streams import plus, topology


def test_the_joiner_can_take_the_key() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        return left.left_join(right.to_table(), lambda k, a, b: f"{k}:{a}{b}", with_key=True)

    driver = Driver(topology(describe))
    driver.send("left", "a", key="k")
    driver.send("right", "b", key="k")
    driver.send("left", "a", key="k")
    assert driver.read("out") == [("k", "k:aNone"), ("k", "k:ab")]


def test_unnamed_joins_of_one_stream_share_its_repartition_topic() -> None:
    def describe(builder: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        moved, table = left.select_key(lambda key, _: key), right.to_table()
        moved.join(table, plus).to("out")
        moved.join(table, plus, name="apart").to("out")
        return moved.join(table, plus)

    assert list(topology(describe).repartitions) == ["KSTREAM-KEY-SELECT-0000000002-repartition", "apart-repartition"]


def test_a_join_with_a_table_of_its_own_results() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        joined = left.join(right, plus, within=10)
        return left.left_join(joined.to_table(), plus)

    driver = Driver(topology(describe))
    for topic, value in (("left", "a"), ("right", "b"), ("left", "c")):
        driver.send(topic, value, key="k", timestamp=0)
    assert driver.read("out") == [("k", "a+None"), ("k", "c+c+b")]
