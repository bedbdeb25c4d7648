"""Faust's models and codecs as serdes, streamtopo's serdes as codecs, and Faust's tables as KTables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import faust
import pytest
from faust.serializers.codecs import get_codec
from faust.serializers.registry import Registry

from streamtopo import StreamsBuilder
from streamtopo.errors import SerdeError
from streamtopo.integrations.faust import SerdeCodec, faust_serde, faust_table
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import TopicPartition
from streamtopo.serdes import serde_of
from streamtopo.testing import Driver
from tests.cli.workers import until
from tests.integrations.faust.workers import FaustWorker, feed, records, table, write_app


class Item(faust.Record, coerce=True):
    name: str
    price: Decimal


class Order(faust.Record, coerce=True):
    id: int
    items: list[Item]
    at: datetime
    note: str | None = None


class Small(faust.Record, include_metadata=False, validation=True, serializer="binary_json"):
    x: int


faust.serializers.codecs.register("binary_json", get_codec("json|binary"))
ORDER = Order(id=1, items=[Item("tea", Decimal("1.20"))], at=datetime(2026, 1, 2, 3, 4, 5))


@dataclasses.dataclass
class Place:
    name: str
    visits: int


@pytest.mark.parametrize(
    ("kind", "codec", "value"),
    [
        (Order, "json", ORDER),
        (Order, "json|binary", ORDER),
        (Small, "json", Small(x=3)),
        (str, "json", "täxt"),
        (str, "raw", "täxt"),
        (str, "raw", "null"),
        (bytes, "raw", b"null"),
        (bytes, "raw", b"\0\xff"),
        (int, "json", 3),
        (float, "json", 0.5),
        (None, "json", {"a": [1, None]}),
    ],
)
def test_bytes_are_those_of_faust(kind: Any, codec: str, value: Any) -> None:
    serde = faust_serde(kind, codec)
    app: Any = faust.App("app", broker="streamtopo://")
    topic = app.topic("topic", value_type=kind, value_serializer=codec)
    written, _ = topic.prepare_value(value, None)
    assert serde.encode_column([value, None]) == [written, None]
    assert serde.decode_column([written, None]) == [value, None]


def test_records_keep_what_they_say_of_themselves() -> None:
    assert faust_serde(Small).encode(Small(x=3)) == get_codec("json|binary").dumps({"x": 3})
    assert b"__faust" in faust_serde(Order).encode(ORDER)
    assert faust_serde(Item).decode(b'{"name":"a","price":"1","__faust":{"ns":"their.Item"}}') == Item("a", Decimal(1))


@pytest.mark.parametrize(
    ("kind", "data"),
    [(Order, b"{"), (Order, b"[1]"), (Order, b"3"), (Order, b'{"id":1}'), (int, b'"x"'), (str, b"\xff")],
)
def test_bytes_that_do_not_fit_are_named(kind: Any, data: bytes) -> None:
    with pytest.raises(SerdeError, match="faust"):
        faust_serde(kind).decode_column([data])


@pytest.mark.parametrize(("kind", "codec", "value"), [(Order, "json", {"id": 1}), (int, "raw", 3), (str, "json", b"x")])
def test_values_that_do_not_fit_are_refused(kind: Any, codec: str, value: Any) -> None:
    with pytest.raises(SerdeError):
        faust_serde(kind, codec).encode_column([value])


def test_records_go_through_a_topology() -> None:
    builder = StreamsBuilder("orders")
    orders = builder.stream("orders", key=faust_serde(str, "raw"), value=faust_serde(Order))
    orders.map_values(lambda order: order.derive(note="seen")).to("seen")
    driver = Driver(builder.build())
    driver.send("orders", ORDER, key="k")
    assert driver.read("seen") == [("k", ORDER.derive(note="seen"))]


# -- the other way


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("streamtopo-int", int, -5),
        ("streamtopo-float", float, 0.25),
        ("streamtopo-bool", bool, True),
        ("streamtopo-json", dict, {"a": [1]}),
    ],
)
def test_serdes_are_codecs_by_name(name: str, kind: Any, value: Any) -> None:
    data = serde_of(kind).encode(value)
    assert get_codec(name).dumps(value) == data
    assert get_codec(name).loads(data) == value
    chained = get_codec(f"{name}|binary")
    assert chained.dumps(value) == get_codec("binary").dumps(data)
    assert chained.loads(chained.dumps(value)) == value
    registry: Any = Registry()
    assert registry.loads_value(kind if kind is int else None, data, serializer=name) == value


def test_any_type_of_streamtopo_is_a_codec() -> None:
    codec, place = SerdeCodec(kind=Place), Place("home", 3)
    assert codec.dumps(place) == serde_of(Place).encode(place)
    registry = Registry(value_serializer=codec)
    assert registry.loads_value(None, registry.dumps_value(None, place)) == place
    with pytest.raises(faust.exceptions.ValueDecodeError, match="Place"):
        registry.loads_value(None, b'{"name": 1}')


# -- tables

APP = """
import faust

class Visit(faust.Record):
    count: int

app = faust.App("visits", broker="kafka://localhost:9092", topic_partitions=2, version=2)
seen = app.topic("seen", key_type=str, value_type=int)
counts = app.Table("counts", key_type=str, value_type=int, default=int, partitions=2)
last = app.Table("last", key_type=str, value_type=Visit, partitions=2)
hours = app.Table("hours", key_type=str, value_type=int, default=int, partitions=2).tumbling(3600.0)

@app.agent(seen)
async def look(stream):
    async for key, number in stream.items():
        counts[key] += 1
        hours[key] += 1
        last[key] = Visit(count=number)
        if number < 0:
            del counts[key]
"""


def test_a_table_moves(tmp_path: Path, log: EmbeddedLog, start: Callable[..., FaustWorker]) -> None:
    log.create(Topic("seen", 2))
    app = write_app(tmp_path, "visits", APP)
    feed(log, "seen", [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("c", -1)])
    worker = start(app)
    until(lambda: len(list(records(log, "visits-v2-last-changelog"))) == 5)
    assert worker.stop() == 0
    assert table(log, "visits-v2-counts-changelog") == {"a": 2, "b": 1, "c": None}

    class Visit(faust.Record):
        count: int

    builder = StreamsBuilder("moved")
    faust_table(builder, "visits-v2", "counts", key=str, value=int, name="counts")
    faust_table(builder, "visits-v2", "last", key=str, value=Visit, name="last")
    faust_table(builder, "visits-v2", "hours", value=int, name="hours")
    driver = Driver(builder.build())
    for name in ("counts", "last", "hours"):
        topic = f"visits-v2-{name}-changelog"
        for number in range(2):
            batch = log.read(TopicPartition(topic, number), 0, 100)
            for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
                driver.send_bytes(topic, value, key=key)
    assert dict(driver.store("counts").all()) == {"a": 2, "b": 1}
    assert dict(driver.store("last").all()) == {"a": Visit(count=3), "b": Visit(count=2), "c": Visit(count=-1)}
    assert {key: value for (key, window), value in driver.store("hours").all()} == {"a": 2, "b": 1, "c": 2}
