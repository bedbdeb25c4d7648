"""Joins of tables by a foreign key: partitions, restarts, and unsuitable keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import StepError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.testing import Driver, DriverRecord
from tests.tables.scores import run, scores


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


def test_a_foreign_key_between_topics_with_different_numbers_of_partitions() -> None:
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


def test_a_row_read_back_from_its_store_as_other_bytes_is_the_same_row() -> None:
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


def test_answers_go_back_to_the_partition_of_the_row() -> None:
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
