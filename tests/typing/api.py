"""User code as people write it: mypy --strict checks it, nothing runs it."""

# pyright: strict

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, assert_type

from streamtopo import (
    GlobalKTable,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    Serde,
    StreamsBuilder,
    StreamtopoError,
    Timestamp,
    Topology,
    ValueTransformer,
    key_value_store,
)
from streamtopo.testing import Driver


@dataclass
class Order:
    customer: str
    cents: int


class Click(TypedDict):
    url: str


LINES = Serde("lines", lambda lines: "\n".join(lines).encode(), lambda data: data.decode().split("\n"))


def every_type(builder: StreamsBuilder) -> None:
    builder.stream("a", key=str, value=int)
    builder.stream("b", "c", key=bytes, value=float)
    builder.stream(re.compile("d.*"), value=bool)
    builder.stream("e", value=Order, timestamp=lambda key, order: order.cents)
    builder.stream("f", value=Click)
    builder.stream("g", value=list[Order])
    builder.stream("h", value=dict[str, int])
    builder.stream("i", value=Order | None)
    builder.stream("j", value=LINES)


def stateless(orders: KStream[str, Order]) -> None:
    def customer(key: str, order: Order) -> str:
        return order.customer

    def large(key: str, order: Order) -> bool:
        return order.cents > 100_00

    assert_type(orders.select_key(customer, key=str), KStream[str, Order])
    orders.map(lambda key, order: (order.customer, order.cents), key=str, value=int)
    orders.map_values(lambda order: order.cents, value=int, name="cents")
    orders.map_values(lambda key, order: f"{key}: {order}", with_key=True, value=str)
    orders.flat_map(lambda key, order: [(key, 1), (key, 2)], value=int)
    orders.flat_map_values(lambda order: [order, order]).merge(orders)
    orders.map_values_batch(lambda values: [value.cents for value in values], value=int)
    orders.filter(large).filter_not(large).peek(print).for_each(print)
    branches = orders.split({"large": large}, default="small")
    assert_type(branches, dict[str, KStream[str, Order]])
    branches["large"].to("large", partitioner=lambda topic, key, value, count: 0)
    branches["small"].to(lambda key, order, context: f"small-{context.timestamp % 2}", value=Order)
    orders.repartition(partitions=4, name="spread").print(label="spread")


def tables(orders: KStream[str, Order]) -> None:
    grouped = orders.group_by(lambda key, order: order.customer, key=str)
    assert_type(grouped, KGroupedStream[str, Order])
    assert_type(grouped.count(name="orders"), KTable[str, int])
    grouped.reduce(lambda largest, order: max(largest, order, key=lambda one: one.cents))
    grouped.aggregate(lambda: 0, lambda key, order, total: total + order.cents, value=int, name="spent")
    orders.group_by_key().count().to_stream().to("counts")
    orders.to_table(store="latest").to_stream(name="changes").to("latest")


class Rounded(ValueTransformer[str, int, int]):
    def transform(self, key: str, cents: int | None) -> int:
        return round(cents or 0, -2)


def tables_of_tables(builder: StreamsBuilder) -> None:
    orders = builder.table("orders", key=str, value=Order)
    customers = builder.table("customers", key=str, value=str, name="customers")
    cents = orders.filter(lambda key, order: order.cents > 0).map_values(
        lambda order: order.cents, value=int, name="cents"
    )
    assert_type(cents, KTable[str, int])
    cents.filter_not(lambda key, cents: cents > 100, name="large").to_stream(lambda key, cents: cents, key=int).to(
        "large"
    )
    cents.transform_values(lambda key, cents: cents or 0).to_stream()
    cents.transform_values(Rounded, stores=["seen"], name="rounded")
    grouped = orders.group_by(lambda key, order: (order.customer, order.cents), key=str, value=int, name="by-customer")
    assert_type(grouped, KGroupedTable[str, int])
    assert_type(grouped.count(name="orders"), KTable[str, int])
    grouped.reduce(lambda total, cents: total + cents, lambda total, cents: total - cents)
    grouped.aggregate(
        lambda: 0, lambda key, cents, total: total + cents, lambda key, cents, total: total - cents, value=int
    )
    assert_type(orders.join(customers, lambda order, name: name, value=str), KTable[str, str])
    orders.left_join(customers, lambda order, name: [order, name], value=list, name="pairs")
    orders.outer_join(customers, lambda order, name: order or name)
    orders.join(customers, lambda order, name: name, foreign_key=lambda order: order.customer, value=str)
    orders.left_join(
        customers,
        lambda order, name: name,
        foreign_key=lambda key, order: key[0],
        with_key=True,
        value=str,
        name="named",
    )


def joins(orders: KStream[str, Order], builder: StreamsBuilder) -> None:
    payments = builder.stream("payments", key=str, value=int, timestamp=Timestamp("at", invalid="partition_time"))
    assert_type(orders.join(payments, lambda order, cents: cents, within="10s", value=int), KStream[str, int])
    orders.left_join(payments, lambda key, order, cents: cents, before=0, after=timedelta(hours=1), with_key=True)
    orders.outer_join(payments, lambda order, cents: cents, within=5, grace="1m", name="paid", store="paid")
    prices = builder.table("prices", key=str, value=int, versioned="10m")
    orders.left_join(prices, lambda order, price: price, grace="1m", value=int)
    shops = builder.global_table("shops", key=str, value=str, timestamp=lambda key, value, times: times.log)
    assert_type(shops, GlobalKTable[str, str])
    orders.join(shops, lambda key, order: order.customer, lambda order, shop: shop, value=str)
    builder.add_global_store(key_value_store("all", key=str, value=int), "prices", Deduplicate, key=str, value=int)


class Deduplicate(Processor[str, Order, str, Order]):
    def init(self, context: ProcessorContext[str, Order]) -> None:
        super().init(context)
        self.seen = context.get_state_store("seen")
        context.schedule("10s", "wall_clock", self.forget)
        context.schedule(timedelta(minutes=1), "stream_time", lambda now: None).cancel()

    def process(self, record: Record[str, Order]) -> None:
        if self.seen.put_if_absent(record.key, 1) is None:
            self.context.forward(record.with_value(record.value), "out")

    def forget(self, now: int) -> None:
        for key, _ in list(self.seen.all()):
            self.seen.delete(key)


def by_hand() -> Topology:
    topology = Topology("by-hand").add_source("in", "orders", key=str, value=Order)
    topology.add_processor("once", Deduplicate, "in")
    topology.add_state_store(key_value_store("seen", key=str, value=int), "once")
    return topology.add_sink("out", "unique", "once", key=str, value=Order)


def with_the_dsl(orders: KStream[str, Order], builder: StreamsBuilder) -> KStream[str, Order]:
    store: str = builder.add_state_store(key_value_store("seen", key=str, value=int, logged=False))
    orders.process_values(Deduplicate, stores=[store])
    return orders.process(lambda: Deduplicate(), stores=[key_value_store("other")], key=str)


def test(driver: Callable[..., Driver]) -> None:
    orders = driver(by_hand(), partitions=2, on_error="skip")
    orders.send("orders", Order("ann", 1), key="ann", timestamp=0, headers=(("trace", b"1"),))
    orders.advance(wall_clock_ms=10_000)
    orders.crash()
    orders.restart()
    assert orders.read("unique") == [("ann", Order("ann", 1))]
    rows: Iterator[tuple[object, object]] = orders.store("seen").all()
    try:
        assert len(list(rows)) == 1
    except StreamtopoError as error:
        raise SystemExit(str(error)) from error
