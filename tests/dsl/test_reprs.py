"""What a stream, a table, a topology or a store says about itself, in a debugger and in a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from inspect import currentframe

from streamtopo import StreamsBuilder, Windows
from streamtopo.testing import Driver


@dataclass
class Order:
    item: str


def line() -> int:
    frame = currentframe()
    assert frame
    assert frame.f_back
    return frame.f_back.f_lineno


builder = StreamsBuilder("shop")
orders, made = builder.stream("orders", key=str, value=Order), line()
counts = orders.group_by_key().count(name="counts")
minutes = orders.group_by_key().windowed_by(Windows.tumbling("1m"))
table = minutes.count(name="minutes")
counts.to_stream().to("totals")


def test_a_stream_has_its_types_and_its_line() -> None:
    source = "KSTREAM-SOURCE-0000000000 of shop"
    assert repr(orders) == f"KStream[str, Order]({source}, test_reprs.py:{made})"
    assert repr(orders.group_by_key()) == f"KGroupedStream by the key of {orders!r}"


def test_a_table_has_its_store() -> None:
    assert repr(counts).startswith("KTable[str, int](KSTREAM-AGGREGATE-")
    assert repr(counts).endswith(" with the store counts")
    assert repr(table).startswith("KTable[Windowed[str], int](")
    assert repr(minutes).startswith("TimeWindowedKStream with TimeWindows(grace=0, size=60000, advance=60000) of ")
    grouped = counts.group_by(lambda key, value: (value, key), key=int, value=str)
    assert repr(grouped).startswith("KGroupedTable[int, str] of KTable[str, int](")


def test_a_topology_has_its_topics_and_stores() -> None:
    facts = "reads orders; writes totals; stores counts, minutes"
    assert repr(builder.build()) == f"Topology(shop: {facts})"
    assert repr(builder) == f"StreamsBuilder(shop: {facts})"
    assert repr(StreamsBuilder("empty")) == "StreamsBuilder(empty: nothing yet)"
    driver = Driver(builder)
    assert repr(driver) == f"Driver(Topology(shop: {facts}), wall clock at 0 ms)"
    assert repr(driver.worker) == "Worker(shop: 1 of 1 tasks running)"


def test_a_store_has_its_kind_and_types() -> None:
    driver = Driver(builder)
    assert repr(driver.store("counts")) == "DriverStore(counts: timestamped key-value, str to int)"
    assert repr(driver.store("minutes")) == "DriverStore(minutes: timestamped window, Windowed[str] to int)"


def test_a_topology_draws_itself_in_a_notebook() -> None:
    for one in (builder, builder.build()):
        drawing = ElementTree.fromstring(getattr(one, "_repr_svg_")())  # noqa: B009 - hidden from type checkers
        assert drawing.tag.endswith("svg")
