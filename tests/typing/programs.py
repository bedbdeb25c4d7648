"""Programs whose types are known without annotations."""

# pyright: strict

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from streamtopo import (
    GlobalKTable,
    KeyValueStore,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    Serde,
    SessionWindowedKStream,
    StreamsBuilder,
    TimeWindowedKStream,
    ValueTransformer,
    Windowed,
    Windows,
    WindowStore,
    key_value_store,
    time_windowed,
    until_window_closes,
    window_store,
)
from streamtopo.aggregators import collect, first, mean, sum, top_k
from streamtopo.hosting.app import App
from streamtopo.hosting.queries.query import Query
from streamtopo.testing import Driver


@dataclass
class Order:
    customer: str
    shop: int
    cents: int
    items: list[str]


@dataclass
class Customer:
    name: str
    city: str


class Line(TypedDict):
    item: str
    city: str


log = logging.getLogger(__name__)
builder = StreamsBuilder("shop")
orders = builder.stream("orders", key=str, value=Order, timestamp=lambda key, order: order.cents)
customers = builder.table("customers", key=str, value=Customer)
shops = builder.global_table("shops", key=int, value=Customer)
assert_type(orders, KStream[str, Order])
assert_type(customers, KTable[str, Customer])
assert_type(shops, GlobalKTable[int, Customer])


def ten_operators() -> None:
    (
        orders.filter(lambda number, order: order.cents > 0 and not number.startswith("test"))
        .select_key(lambda number, order: order.customer, key=str)
        .join(customers, lambda order, customer: (order, customer.city))
        .flat_map_values(lambda pair: [(item, pair[1]) for item in pair[0].items])
        .map(lambda customer, pair: (pair[1], pair[0].lower()), key=str, value=str)
        .peek(lambda city, item: log.info("%s in %s", item.title(), city.title()))
        .group_by(lambda city, item: f"{city}/{item}", key=str)
        .windowed_by(Windows.tumbling("1h"))
        .count(name="sold")
        .to_stream()
        .map(lambda hour, sold: (hour.key.upper(), sold * 1000 / (hour.end - hour.start)), key=str, value=float)
        .to("sold-per-second")
    )


def sources() -> None:
    assert_type(builder.stream("a"), KStream[bytes | None, bytes | None])
    assert_type(builder.stream("b", value=str), KStream[bytes | None, str])
    assert_type(builder.stream("c", "d", key=int, value=list[Order]), KStream[int, list[Order]])
    assert_type(builder.stream("e", key=str, value=Order | None), KStream[str, Order | None])
    assert_type(builder.stream("f", key=str, value=Line), KStream[str, Line])
    assert_type(builder.table("g"), KTable[bytes, bytes])
    pairs = Serde("pairs", lambda pair: f"{pair[0]} {pair[1]}".encode(), two_words)
    assert_type(builder.stream("h", key=str, value=pairs), KStream[str, tuple[str, str]])
    lines = Serde[list[str]]("lines", lambda lines: "\n".join(lines).encode(), lambda data: data.decode().split("\n"))
    assert_type(builder.stream("j", value=lines).map_values(lambda lines: len(lines)), KStream[bytes | None, int])
    hours = builder.stream("i", key=time_windowed(str, "1h"), value=int)
    assert_type(hours.map(lambda hour, count: (hour.key, count + 1)), KStream[str, int])


def two_words(data: bytes) -> tuple[str, str]:
    first, _, second = data.decode().partition(" ")
    return first, second


def one_by_one() -> None:
    assert_type(orders.map_values(lambda order: order.cents), KStream[str, int])
    assert_type(
        orders.map_values(lambda key, order: f"{key.upper()} {order.shop + 1}", with_key=True), KStream[str, str]
    )
    assert_type(orders.map_values(lambda order: order.customer or None), KStream[str, str | None])
    assert_type(orders.map_values(lambda order: order.customer or None, value=str), KStream[str, str])
    lines = orders.map_values(first_line, value=Line)
    assert_type(lines, KStream[str, Line])
    assert_type(lines.map_values(lambda line: line["item"].upper()).map_values(str.encode), KStream[str, bytes])
    assert_type(orders.flat_map(lambda key, order: [(item, key) for item in order.items]), KStream[str, str])
    assert_type(orders.flat_map_values(lambda key, order: [key, *order.items], with_key=True), KStream[str, str])
    assert_type(orders.map_values_batch(lambda orders: [order.cents / 100 for order in orders]), KStream[str, float])
    assert_type(orders.map_values_async(asked), KStream[str, int])
    branches = orders.split({"large": lambda key, order: order.cents > 10_000}, default="small")
    assert_type(branches["large"].merge(branches["small"]), KStream[str, Order])
    orders.to(lambda key, order, context: f"orders-{order.shop}-{context.timestamp}", key=str, value=Order)


def first_line(order: Order) -> Line:
    return {"item": order.items[0], "city": "Paris"}


async def asked(order: Order) -> int:
    await asyncio.sleep(0)
    return order.cents


def groups() -> None:
    grouped = orders.group_by(lambda key, order: order.shop or None, key=int)
    assert_type(grouped, KGroupedStream[int, Order])
    assert_type(grouped.count(), KTable[int, int])
    assert_type(grouped.reduce(lambda large, order: max(large, order, key=lambda one: one.cents)), KTable[int, Order])
    assert_type(
        grouped.aggregate(lambda: 0, lambda shop, order, total: total + order.cents, value=int), KTable[int, int]
    )
    assert_type(
        grouped.aggregate(list[str], lambda shop, order, row: [*row, order.customer], value=list[str]),
        KTable[int, list[str]],
    )
    largest_ones = grouped.aggregate(lambda: None, largest, value=Order)
    assert_type(largest_ones.map_values(lambda order: order.cents), KTable[int, int])
    assert_type(builder.stream("clicks").group_by_key().count(), KTable[bytes, int])
    assert_type(orders.to_table(store="orders").to_stream(), KStream[str, Order])


def largest(shop: int, order: Order, row: Order | None) -> Order:
    return order if row is None or order.cents > row.cents else row


def ready_aggregators(by_shop: KGroupedStream[int, Order]) -> None:
    assert_type(by_shop.aggregate(mean(lambda order: order.cents)), KTable[int, float])
    assert_type(by_shop.aggregate(sum(lambda order: order.cents, value=int)), KTable[int, int])
    assert_type(
        by_shop.aggregate(top_k(3, lambda order: order.customer, by=lambda name: len(name))), KTable[int, list[str]]
    )
    assert_type(by_shop.aggregate(collect(value=list[Order])), KTable[int, list[Order]])
    assert_type(by_shop.aggregate(first(lambda order: order.customer, value=str)), KTable[int, str])


def windows() -> None:
    by_key = orders.group_by_key()
    hopping = by_key.windowed_by(Windows.hopping("1h", every="5m"), emit="on_close", on_late="late")
    assert_type(hopping, TimeWindowedKStream[str, Order])
    assert_type(hopping.count(), KTable[Windowed[str], int])
    assert_type(hopping.reduce(lambda row, order: order), KTable[Windowed[str], Order])
    totals = hopping.aggregate(lambda: 0, lambda key, order, total: total + order.cents, value=int)
    assert_type(totals.suppress(until_window_closes()).to_stream(), KStream[Windowed[str], int])
    sessions = by_key.windowed_by(Windows.session("30m"))
    assert_type(sessions, SessionWindowedKStream[str, Order])
    lengths = sessions.aggregate(
        lambda: 0, lambda key, order, row: row + 1, lambda key, one, other: one + other, value=int
    )
    assert_type(lengths.to_stream(lambda window, count: window.key.upper(), key=str), KStream[str, int])
    both = by_key.cogroup(lambda key, order, row: row + order.cents)
    both = both.cogroup(
        builder.stream("refunds", key=str, value=int).group_by_key(), lambda key, cents, row: row - cents
    )
    assert_type(both.aggregate(lambda: 0, value=int), KTable[str, int])
    assert_type(both.windowed_by(Windows.sliding("5s")).aggregate(lambda: 0, value=int), KTable[Windowed[str], int])


def joins() -> None:
    payments = builder.stream("payments", key=str, value=int)
    assert_type(orders.join(payments, lambda order, cents: order.cents - cents, within="1h"), KStream[str, int])
    assert_type(orders.left_join(payments, lambda order, cents: cents, within="1h"), KStream[str, int | None])
    assert_type(orders.left_join(payments, lambda order, cents: cents, within="1h", value=int), KStream[str, int])
    open_ones = orders.outer_join(
        payments, lambda order, cents: (order.cents if order else 0) - (cents or 0), before=0, after="1h"
    )
    assert_type(open_ones, KStream[str, int])
    cities = orders.join(customers, lambda key, order, customer: (key, order.shop, customer.city), with_key=True)
    assert_type(cities, KStream[str, tuple[str, int, str]])
    assert_type(
        orders.left_join(customers, lambda order, customer: customer.city if customer else None),
        KStream[str, str | None],
    )
    assert_type(orders.join(shops, lambda key, order: order.shop, lambda order, shop: shop.city), KStream[str, str])


def tables() -> None:
    cities = customers.filter(lambda key, customer: customer.city != "").map_values(lambda customer: customer.city)
    assert_type(cities, KTable[str, str])
    latest = builder.table("latest-orders", key=str, value=Order)
    assert_type(latest.join(customers, lambda order, customer: customer.city), KTable[str, str])
    deletable = builder.table("refunds-by-order", key=str, value=Order | None)
    assert_type(deletable.map_values(lambda order: order.cents), KTable[str, int])
    assert_type(deletable.join(cities, lambda order, city: order.cents), KTable[str, int])
    assert_type(deletable.to_stream().map_values(lambda order: order.cents if order else 0), KStream[str, int])
    named = latest.left_join(
        customers,
        lambda order, customer: f"{order.cents} {customer.name if customer else ''}",
        foreign_key=lambda order: order.customer,
        value=str,
    )
    assert_type(named, KTable[str, str])
    assert_type(latest.outer_join(cities, lambda order, city: city or "?"), KTable[str, str])
    grouped = latest.group_by(lambda number, order: (order.shop, order.cents), key=int, value=int)
    assert_type(grouped, KGroupedTable[int, int])
    assert_type(grouped.reduce(lambda row, cents: row + cents, lambda row, cents: row - cents), KTable[int, int])
    assert_type(cities.transform_values(lambda key, city: city or key), KTable[str, str])
    assert_type(
        cities.transform_values(Changes, stores=[key_value_store("changes", key=str, value=int)]), KTable[str, int]
    )


class Changes(ValueTransformer[str, str, int]):
    def transform(self, key: str, value: str | None) -> int:
        return 0 if value is None else len(value)


class Once(Processor[str, Order, str, int]):
    def process(self, record: Record[str, Order]) -> None:
        self.context.forward(record.with_value(record.value.cents))
        self.context.forward(Record(record.key.upper(), 0, record.timestamp))


class Seen(Processor[str, Order, str, Order]):
    def init(self, context: ProcessorContext[str, Order]) -> None:
        super().init(context)
        self.seen: KeyValueStore[str, int] = context.get_state_store("seen")
        self.hours: WindowStore[str, Order] = context.get_state_store("hours")

    def process(self, record: Record[str, Order]) -> None:
        assert_type(self.seen.get(record.key), int | None)
        self.seen.put(record.key, (self.seen.get(record.key) or 0) + 1)
        self.hours.put(record.key, record.value, record.timestamp)
        for window, order in self.hours.fetch_all(0, record.timestamp):
            self.context.forward(Record(window.key, order, window.start))


class Printed(Processor[str, Order]):
    def process(self, record: Record[str, Order]) -> None:
        log.info("%s", record.value.cents)


class Untyped(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_key(record.key.upper()))


def processors() -> None:
    assert_type(orders.process(Once).map_values(lambda cents: cents + 1), KStream[str, int])
    assert_type(orders.process_values(Once, value=int), KStream[str, int])
    assert_type(orders.process(Printed), KStream[Any, Any])
    assert_type(orders.process(Untyped), KStream[Any, Any])
    stores = [
        key_value_store("seen", key=str, value=int),
        window_store("hours", window_size="1h", retention="1d", key=str, value=Order),
    ]
    assert_type(orders.process(Seen, stores=stores), KStream[str, Order])


def queries(app: App) -> None:
    counts: Query[str, int] = app.query("counts")
    assert_type(counts.get("ann"), int | None)
    assert_type([count + 1 for window, count in counts.window("ann") if window.key == "ann"], list[int])


def in_functions_of_ones_own(orders: KStream[str, Order | None]) -> KTable[str, int]:
    """A stream without None is one that might have had None."""
    return orders.map_values(lambda order: 0 if order is None else order.cents, value=int).to_table()


def all_of_them() -> Driver:
    for program in (ten_operators, sources, one_by_one, groups, windows, joins, tables, processors):
        program()
    ready_aggregators(orders.group_by(lambda key, order: order.shop, key=int))
    in_functions_of_ones_own(orders)
    return Driver(builder.build())
