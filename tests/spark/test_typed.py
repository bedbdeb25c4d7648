"""Typed columns: Spark reads what the serdes write, and records that do not fit are set aside."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from pyspark.sql import DataFrame, SparkSession

from streamtopo import Serde
from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns
from streamtopo.serdes import serde_of
from streamtopo.serdes.windowed import time_windowed
from streamtopo.spark import read_topic
from streamtopo.windows import Windowed
from tests.logs.records import T0


class Colour(Enum):
    RED = "red"


@dataclass
class Place:
    lat: float
    name: str = "nowhere"


@dataclass
class Reading:
    site: str
    celsius: float
    at: datetime
    day: date
    place: Place
    colour: Colour
    price: Decimal
    id: UUID
    tags: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    anything: Any = None
    note: str | None = None
    timestamp: int = 7
    quality: int = 100


READING = Reading(
    "a",
    1.5,
    datetime(2026, 11, 18, 9, 30, 0, 123456, tzinfo=UTC),
    date(2026, 11, 18),
    Place(52.5),
    Colour.RED,
    Decimal("12.34"),
    UUID(int=5),
    ["x", "y"],
    {"n": 3},
    {"deep": [1]},
)


def write(log: EmbeddedLog, kind: Any, *values: Any) -> None:
    """Write bytes unchanged, for values that a serde would not write."""
    encoded = [one if one is None or isinstance(one, bytes) else serde_of(kind).encode(one) for one in values]
    log.append(T0, Columns([None] * len(values), encoded, list(range(len(values)))))


def values(frame: DataFrame) -> list[Any]:
    return [row.value for row in frame.sort("offset").collect()]


@pytest.fixture
def topic(spark: SparkSession, log: EmbeddedLog) -> Any:
    return lambda kind, **options: read_topic(spark, f"embedded:{log.path}", "t", value=kind, **options)


PLAIN = [
    (str, ["", "Größe 😀", "x" * 1000], b"\xff\xfe"),
    (int, [0, 1, -1, 2**63 - 1, -(2**63)], b"1234567"),
    (float, [0.0, -0.1, 1e308, 5e-324, math.inf, -math.inf, 2 / 3], b"123456789"),
    (bool, [True, False], b"\x02"),
    (list[int], [[1, 2], []], b"[1"),
    (dict[str, float], [{"a": 1.5}, {}], b"{"),
]


@pytest.mark.parametrize(("kind", "good", "bad"), PLAIN, ids=lambda value: str(value)[:12])
def test_plain_values_become_columns(log: EmbeddedLog, topic: Any, kind: Any, good: list[Any], bad: bytes) -> None:
    write(log, kind, *good, None, bad)
    found = topic(kind)
    assert values(found) == [*good, None, None]
    corrupt = found.where("_corrupt is not null").collect()
    assert [(row.offset, bytes(row._corrupt.value), row._corrupt.key) for row in corrupt] == [
        (len(good) + 1, bad, None)
    ]


def test_a_dataclass_gives_columns(log: EmbeddedLog, topic: Any) -> None:
    write(log, Reading, READING)
    (row,) = topic(Reading).collect()
    assert (row.site, row.celsius, row.day, row.colour) == ("a", 1.5, date(2026, 11, 18), "red")
    assert row["at"].astimezone(UTC) == READING.at
    assert (row.place.asDict(), row.price, row.id) == ({"lat": 52.5, "name": "nowhere"}, READING.price, str(READING.id))
    assert (row.tags, row.counts, row.note, row.anything.toPython()) == (["x", "y"], {"n": 3}, None, {"deep": [1]})
    assert row.timestamp.astimezone(UTC) == datetime.fromtimestamp(0, UTC)  # the record's timestamp
    assert (row.value.timestamp, row._corrupt) == (7, None)


@dataclass
class Small:
    site: str
    inner: Place
    quality: int = 100


def test_values_that_a_serde_would_refuse_are_set_aside(log: EmbeddedLog, topic: Any) -> None:
    good = b'{"site":"a","inner":{"lat":1},"more":true}'
    bad = [
        b"no json",
        b'{"site":"a"}',
        b'{"site":"a","inner":{}}',
        b'{"site":"a","inner":{"lat":"x"}}',
        b'{"inner":{"lat":1}}',
        b'["a"]',
        b'{"site":"\xff","inner":{"lat":1}}',
        b"",
    ]
    write(log, Small, good, b"null", None, *bad)
    for one in bad:
        with pytest.raises(StreamtopoError):
            serde_of(Small).decode(one)
    found = topic(Small).sort("offset").collect()
    assert [row.site for row in found] == ["a"] + [None] * 10
    assert [row._corrupt and bytes(row._corrupt.value) for row in found] == [None, None, None, *bad]
    assert found[0].quality == 100  # a new field with a default


class Movie(TypedDict):
    title: str
    year: int


def test_a_typed_dict_gives_columns(log: EmbeddedLog, topic: Any) -> None:
    write(log, Movie, {"title": "Metropolis", "year": 1927}, b'{"title":"M"}')
    found = topic(Movie).sort("offset").collect()
    assert [(row.title, row.year, row._corrupt) for row in found] == [("Metropolis", 1927, None), ("M", None, None)]


def test_untyped_json_is_a_variant(log: EmbeddedLog, topic: Any) -> None:
    write(log, dict, {"user": 7, "tags": ["x"]}, b"{", b"null")
    found = topic(dict).selectExpr("offset", "variant_get(value, '$.user', 'int') AS user", "_corrupt IS NULL AS ok")
    assert sorted(map(tuple, found.collect())) == [(0, 7, True), (1, None, False), (2, None, True)]


def test_keys_are_typed_too(log: EmbeddedLog, spark: SparkSession) -> None:
    log.append(T0, Columns([serde_of(int).encode(5), b"bad"], [b"v", b"w"], [0, 0]))
    found = read_topic(spark, f"embedded:{log.path}", "t", key=int, value=str).sort("offset").collect()
    assert [(row.key, row.value) for row in found] == [(5, "v"), (None, "w")]
    assert (bytes(found[1]._corrupt.key), found[1]._corrupt.value) == (b"bad", None)


@dataclass
class Tree:
    children: list[Tree]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Serde("mine", bytes, bytes), 'serde "mine" does not say what it decodes to'),
        (Tree, "Tree contains itself"),
    ],
)
def test_types_without_columns_are_refused(topic: Any, kind: Any, message: str) -> None:
    with pytest.raises(StreamtopoError, match=message):
        topic(kind)


def test_other_logs_are_refused(spark: SparkSession) -> None:
    with pytest.raises(StreamtopoError, match="give embedded:DIRECTORY"):
        read_topic(spark, "memory:", "t")


@dataclass
class Capital:
    Offset: str
    site: str


def test_fields_that_differ_from_record_columns_only_in_case_are_in_the_value(log: EmbeddedLog, topic: Any) -> None:
    write(log, Capital, Capital("x", "a"))
    (row,) = topic(Capital).select("offset", "site", "value").collect()
    assert (row.offset, row.site, row.value.Offset) == (0, "a", "x")


@dataclass
class Nested:
    place: Place | None = None
    places: list[Place] = field(default_factory=list)
    named: dict[str, Place] = field(default_factory=dict)
    quality: int | None = 100


def test_missing_fields_inside_optional_values_are_set_aside(log: EmbeddedLog, topic: Any) -> None:
    good = [b'{"place":{"lat":1},"places":[{"lat":1}],"named":{"a":{"lat":1}}}', b'{"place":null}', b"{}"]
    bad = [b'{"place":{}}', b'{"places":[{"lat":1},{}]}', b'{"named":{"a":{"name":"x"}}}']
    write(log, Nested, *good, *bad)
    for one in bad:
        with pytest.raises(StreamtopoError):
            serde_of(Nested).decode(one)
    found = topic(Nested).sort("offset").collect()
    assert [row._corrupt and bytes(row._corrupt.value) for row in found] == [None] * 3 + bad


def test_a_written_null_is_not_replaced_by_the_default(log: EmbeddedLog, topic: Any) -> None:
    write(log, Nested, b'{"quality":null}', b"{}", b'{"quality":5}')
    assert [row.quality for row in topic(Nested).sort("offset").collect()] == [None, 100, 5]


def test_keys_with_windows_have_their_times(log: EmbeddedLog, spark: SparkSession) -> None:
    key = time_windowed(str, "1m")
    log.append(T0, Columns([key.encode(Windowed("a", 60_000, 120_000)), b"short"], [b"v", b"w"], [0, 0]))
    found = read_topic(spark, f"embedded:{log.path}", "t", key=key).sort("offset").collect()
    start, end = (datetime.fromtimestamp(second, UTC).replace(tzinfo=None) for second in (60, 120))
    assert found[0].key == ("a", start, end)
    assert (found[1].key, bytes(found[1]._corrupt.key)) == (None, b"short")


class Order(pydantic.BaseModel):
    customer: str
    cents: int = pydantic.Field(ge=0)


class Click(msgspec.Struct):
    page: str
    at: datetime | None = None


def trimmed(data: bytes) -> str:
    return data.decode().strip()


MODELS = [
    (Order, Order(customer="ann", cents=5), b'{"customer":"ann","cents":-1}', ("ann", 5)),
    (Click, Click("/"), b'{"page":1}', ("/", None)),
    (Serde("trimmed", str.encode, trimmed), " ann ", b"\xff", "ann"),
]


@pytest.mark.parametrize(("kind", "good", "bad", "shown"), MODELS, ids=["pydantic", "msgspec", "functions"])
def test_models_and_functions_have_columns(
    log: EmbeddedLog, topic: Any, kind: Any, good: Any, bad: bytes, shown: Any
) -> None:
    write(log, kind, good, bad)
    first, second = topic(kind).sort("offset").collect()
    assert (first.value, first._corrupt) == (shown, None)
    assert (second.value, bytes(second._corrupt.value)) == (None, bad)
