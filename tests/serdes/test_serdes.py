"""The wire format, columns with nulls, and the errors for values that do not fit."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from datetime import time
from typing import Any, Optional, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo.errors import SerdeError, TopologyError
from streamtopo.serdes import BOOL, BYTES, FLOAT, INT, JSON, STR, Serde, serde_of


@dataclass
class Order:
    id: int
    amount: float = 0.0
    tags: dict[str, int] = field(default_factory=dict)


class Quote(TypedDict):
    price: int


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(default=0, alias="years")


class Point(msgspec.Struct):
    y: int
    x: int = 0


numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
floats = st.floats(allow_nan=False, allow_infinity=False)
values: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: numbers,
    float: floats | st.just(float("inf")),
    bool: st.booleans(),
    bytes: st.binary(),
    dict: st.dictionaries(texts, texts | numbers | floats | st.none() | st.booleans()),
    list[int]: st.lists(numbers),
    tuple[str, int]: st.tuples(texts, numbers),
    Order: st.builds(Order, numbers, floats, st.dictionaries(texts, numbers)),
    list[Order]: st.lists(st.builds(Order, numbers, floats)),
    Quote: st.builds(lambda price: Quote(price=price), numbers),
    Person: st.builds(lambda name, age: Person(name=name, years=age), texts, numbers),
    dict[str, Person]: st.dictionaries(texts, st.builds(lambda name: Person(name=name), texts)),
    Point: st.builds(Point, numbers, numbers),
    list[Point]: st.lists(st.builds(Point, numbers)),
    Optional[Point]: st.builds(Point, numbers),  # noqa: UP045
}


@pytest.mark.parametrize("kind", values, ids=str)
@pytest.mark.parametrize("key", [False, True])
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_columns_are_read_back_with_their_nulls(kind: Any, key: bool, data: st.DataObject) -> None:
    serde = serde_of(kind, key=key)
    column = data.draw(st.lists(values[kind] | st.none()) | st.lists(values[kind]))
    encoded = serde.encode_column(column)
    assert encoded == [None if value is None else serde.encode(value) for value in column]
    assert serde.decode_column(encoded) == column == [None if it is None else serde.decode(it) for it in encoded]


@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        (str, "é", b"\xc3\xa9"),
        (int, -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        (int, True, b"\0\0\0\0\0\0\0\1"),
        (float, 1.5, struct.pack(">d", 1.5)),
        (float, 1, struct.pack(">d", 1.0)),
        (bool, True, b"\1"),
        (bytes, b"\0a", b"\0a"),
        (dict, {"b": 1, "a": None}, b'{"b":1,"a":null}'),
        (list[time], [time(0, 0, 0, 10_000)], b'["00:00:00.010000"]'),
        (Order, Order(1, 2.5, {"b": 1, "a": 2}), b'{"id":1,"amount":2.5,"tags":{"b":1,"a":2}}'),
        (Person, Person(name="a", years=3), b'{"name":"a","years":3}'),
        (Point, Point(1, 2), b'{"y":1,"x":2}'),
        (set[int], {3, 1}, b"[1,3]"),
    ],
)
def test_the_wire_format(kind: Any, value: Any, wire: bytes) -> None:
    assert serde_of(kind).encode(value) == wire
    assert serde_of(kind).encode_column([value]) == [wire]


@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        (dict, {"b": 1, "a": None}, b'{"a":null,"b":1}'),
        (Order, Order(1, 2.5, {"b": 1, "a": 2}), b'{"amount":2.5,"id":1,"tags":{"a":2,"b":1}}'),
        (Person, Person(name="a", years=3), b'{"name":"a","years":3}'),
        (Point, Point(1, 2), b'{"x":2,"y":1}'),
    ],
)
def test_keys_have_sorted_names(kind: Any, value: Any, wire: bytes) -> None:
    assert serde_of(kind, key=True).encode_column([value]) == [wire]


@pytest.mark.parametrize("kind", [dict, Order, Person, Point, list[Order]])
def test_json_null_is_none(kind: Any) -> None:
    assert serde_of(kind).decode(b"null") is None
    assert serde_of(kind).decode_column([b"null", None]) == [None, None]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (str, 5, "expected str, got int 5"),
        (int, "5", "expected int, got str '5'"),
        (int, 2**63, "int 9223372036854775808 cannot be written as int: "),
        (float, "x" * 200, "expected float, got str '" + "x" * 76 + "..."),
        (bool, 1, "expected bool, got int 1"),
        (bytes, "a", "expected bytes, got str 'a'"),
        (dict, {1}, "expected dict, got set {1}"),
        (Order, {"id": 1}, "expected Order, got dict {'id': 1}"),
        (Person, 1, "expected Person, got int 1"),
        (Point, 1, "expected Point, got int 1"),
    ],
)
def test_errors_name_the_wrong_value(kind: Any, value: Any, text: str) -> None:
    for encode in (serde_of(kind).encode, lambda value: serde_of(kind).encode_column([None, value])):
        with pytest.raises(SerdeError, match="^" + re.escape(text)):
            encode(value)


@pytest.mark.parametrize(
    ("kind", "wire", "text"),
    [
        (int, b"abc", "8 bytes were expected for int, got 3: b'abc'"),
        (float, b"", "8 bytes were expected for float, got 0: b''"),
        (str, b"\xff", "not UTF-8: b'\\xff'"),
        (bool, b"\2", "one byte, 0 or 1, was expected for bool, got 1: b'\\x02'"),
        (dict, b'{"a', "not JSON: "),
        (Order, b'{"a', "not Order: "),
        (Order, b'{"id":"x"}', "Order.id: expected int, got str 'x'"),
        (Person, b"{}", "not Person: "),
        (Point, b"{}", "not Point: Object missing required field `y`: b'{}'"),
    ],
)
def test_errors_name_the_wrong_bytes(kind: Any, wire: bytes, text: str) -> None:
    for decode in (serde_of(kind).decode, lambda wire: serde_of(kind).decode_column([wire])):
        with pytest.raises(SerdeError, match="^" + re.escape(text)):
            decode(wire)


def test_wrong_lengths_with_the_right_sum_are_refused() -> None:
    with pytest.raises(SerdeError, match="got 7"):
        INT.decode_column([b"1234567", b"123456789"])


def test_a_custom_serde() -> None:
    hexadecimal = Serde("hex", lambda number: f"{number:x}".encode(), lambda data: int(data, 16))
    assert serde_of(hexadecimal) is hexadecimal
    assert hexadecimal.encode_column([255, None]) == [b"ff", None]
    with pytest.raises(SerdeError, match=r'serde "hex" failed on bytes b\'g\': ValueError'):
        hexadecimal.decode_column([b"ff", b"g"])


def test_names_and_flags() -> None:
    assert [serde.name for serde in (BYTES, STR, INT, FLOAT, BOOL, JSON)] == [
        "bytes",
        "str",
        "int",
        "float",
        "bool",
        "json",
    ]
    assert [serde.exact for serde in (BYTES, STR, INT, FLOAT, BOOL, JSON)] == [
        True,
        True,
        True,
        False,
        True,
        False,
    ]
    assert serde_of(Order).name == f"{__name__}.Order"
    assert serde_of(str | None) is STR
    assert serde_of(dict[str, list[int]]).name == JSON.name


@pytest.mark.parametrize("spec", [complex, object(), "str", None, int | Order, []])
def test_other_specs_are_refused_with_advice(spec: Any) -> None:
    with pytest.raises(TopologyError, match=r'your own Serde\("name", encode, decode\)'):
        serde_of(spec)
