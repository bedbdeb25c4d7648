"""Mistakes that type checkers find before a program runs: each line with a comment is one, for both or for mypy only.

Where a function does not return the declared type, pyright takes a union of both, and does not complain.
"""

# pyright: strict

from __future__ import annotations

import streamtopo
from streamtopo import KeyValueStore, KStream, KTable, Processor, Record, Windows
from streamtopo.aggregators import mean
from tests.typing.programs import Customer, Once, Order, builder, customers, orders, shops

payments = builder.stream("payments", key=str, value=int)
by_shop = orders.map(lambda key, order: (order.shop, order), key=int)
counts = by_shop.group_by_key().count()


def names() -> None:
    Windows.of("1m")  # error
    assert streamtopo.TimeWindows  # error


def functions() -> None:
    orders.filter(lambda key, order: order.cent > 0)  # error
    orders.filter(lambda order: order.cents > 0)  # error
    orders.map_values(lambda order: order.cents + order.customer)  # error
    orders.map_values(lambda key, order: order.cents)  # error
    orders.map_values(lambda order: order.cents, with_key=True)  # error
    orders.map(lambda key, order: order.cents)  # error
    orders.flat_map_values(lambda order: order.cents)  # error
    orders.map_values(str.upper)  # error
    orders.split({"large": lambda key, order: order.price > 100})  # error
    orders.map_values(lambda order: order.cents).map_values(lambda cents: cents.upper())  # error
    orders.map_values_async(lambda order: order.cents)  # error
    builder.stream("clicks").map_values(lambda value: value.decode())  # error


def declared_types() -> None:
    orders.to("out", value=int)  # error
    orders.to("out", key=int)  # error
    orders.to(lambda key, order, context: order.shop)  # error
    orders.group_by_key(value=int)  # error
    orders.map_values(lambda order: order.cents, value=str)  # error in mypy
    orders.select_key(lambda key, order: order.shop, key=str)  # error in mypy
    orders.group_by(lambda key, order: order.shop, key=str)  # error in mypy
    builder.stream("in", key=5)  # error


def aggregations() -> None:
    grouped = orders.group_by_key()
    grouped.reduce(lambda row, order: row.cents + order.cents)  # error
    grouped.aggregate(lambda: 0, lambda key, order, total: f"{total}{order.cents}", value=int)  # error
    grouped.aggregate(lambda: 0, lambda key, order, total: total.upper(), value=int)  # error
    grouped.aggregate(lambda: 0, lambda key, order: order.cents, value=int)  # error
    grouped.aggregate(lambda: 0, lambda key, order, total: total + order.cents, value=str)  # error
    grouped.aggregate(lambda: 0, lambda key, order, total: total + order.cents)  # error
    grouped.aggregate(mean(lambda order: order.cost))  # error
    grouped.cogroup(lambda key, order, row: row + order.cents).aggregate(lambda: 0)  # error
    grouped.windowed_by("1h")  # error
    grouped.windowed_by(Windows.session("1h")).aggregate(lambda: 0, lambda key, order, row: row + 1, value=int)  # error
    grouped.windowed_by(Windows.tumbling("1h")).count().to_stream().to("out", value=str)  # error
    grouped.windowed_by(Windows.tumbling("1h")).count().filter(lambda window, count: window.begin > 0)  # error


def joins() -> None:
    orders.join(payments, lambda order, cents: order.cents - cents.value, within="1h")  # error
    orders.join(payments, lambda key, order, cents: cents, within="1h")  # error
    orders.join(payments, lambda order, cents: cents, grade="1h")  # error
    orders.join(customers, lambda order, customer: customer.town)  # error
    orders.join(customers, lambda order, customer: customer.city, within="1h")  # error
    orders.left_join(customers, lambda order, customer: customer.city)  # error
    orders.outer_join(customers, lambda order, customer: customer)  # error
    orders.join(counts, lambda order, count: count)  # error
    orders.join(by_shop, lambda order, other: other, within="1h")  # error
    orders.join(shops, lambda key, order: order.customer, lambda order, shop: shop)  # error
    orders.join(shops, lambda order, shop: shop)  # error
    orders.join("customers", lambda order, customer: customer)  # error
    orders.merge(payments)  # error
    orders.merge(customers)  # error
    customers.join(counts, lambda customer, count: count)  # error
    customers.join(orders, lambda customer, order: order)  # error
    customers.join(counts, lambda customer, count: count, foreign_key=lambda customer: customer.name)  # error
    builder.table("x", key=str, value=Order | None).to_stream().filter(lambda key, order: order.cents > 0)  # error
    customers.left_join(customers, lambda one, other: other.name)  # error


class Prices(Processor[str, int, str, float]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_value(record.value / 100))
        self.context.forward(record.with_value(f"{record.value}"))  # error
        self.context.forward(record.with_key(1).with_value(0.5))  # error
        record.value.upper()  # error


class Seen(Processor[str, int, str, float]):
    def process(self, record: Record[str, int]) -> None:
        seen: KeyValueStore[str, int] = self.context.get_state_store("seen")
        seen.put(record.key, "once")  # error
        seen.put(record.key, seen.get(record.key) + 1)  # error
        seen.get(record.value)  # error


def processors() -> None:
    orders.process(Prices)  # error
    payments.process(Prices).map_values(lambda price: price.upper())  # error
    orders.process(Once).filter(lambda key, cents: cents.customer)  # error


def as_arguments() -> None:
    def of_customers(table: KTable[str, Customer]) -> None: ...
    def of_orders(stream: KStream[str, Order]) -> None: ...

    of_customers(counts)  # error
    of_orders(payments)  # error
    of_orders(by_shop)  # error
