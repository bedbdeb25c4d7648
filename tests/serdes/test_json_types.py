"""Dataclasses and similar types from parsed JSON."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Literal, NewType, TypedDict
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo.errors import SerdeError, TopologyError
from streamtopo.serdes.json_types import converter, to_json

Sku = NewType("Sku", str)


class Color(Enum):
    RED = "red"
    BLUE = 2


class Tag(TypedDict):
    name: str
    line: Line


@dataclass(frozen=True)
class Line:
    sku: Sku
    price: float
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line]
    note: str | None = None


@dataclass
class Gift(Order):
    to: str = "you"
    size: int = field(init=False, default=0)
    kind: ClassVar[str] = "gift"


@dataclass(slots=True)
class Everything:
    color: Color
    at: datetime
    day: date
    hour: time
    id: UUID
    amount: Decimal
    pair: tuple[int, str]
    many: tuple[int, ...]
    names: set[str]
    frozen: frozenset[int]
    by_number: dict[int, Line]
    size: Literal["s", 2]
    either: int | str
    when: str | datetime | None
    free: Any


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


@dataclass
class Hidden:
    _secret: int


@dataclass
class Asks:
    x: dataclasses.InitVar[int]


OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME

numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
lines = st.builds(Line, texts, st.floats(allow_nan=False, allow_infinity=False), numbers)
everything = st.builds(
    Everything,
    **{"id": st.uuids(), "by_number": st.dictionaries(numbers, lines), "when": st.none() | st.datetimes()},
    color=st.sampled_from(Color),
    at=st.datetimes(),
    day=st.dates(),
    hour=st.times(),
    amount=st.decimals(allow_nan=False),
    pair=st.tuples(numbers, texts),
    many=st.lists(numbers).map(tuple),
    names=st.sets(texts),
    frozen=st.frozensets(numbers),
    size=st.sampled_from(["s", 2]),
    either=numbers | texts,
    free=st.none() | st.lists(texts),
)


def through_json(value: Any, kind: Any) -> Any:
    return converter(kind)(orjson.loads(orjson.dumps(value, default=to_json, option=OPTIONS)))


@given(everything)
@settings(max_examples=50, deadline=None)
def test_every_kind_of_field_is_read_back(value: Everything) -> None:
    assert through_json(value, Everything) == value


@given(st.builds(Order, numbers, st.lists(lines), st.none() | texts))
def test_nested_dataclasses_are_read_back(order: Order) -> None:
    assert through_json([order], list[Order]) == [order]


def test_dates_are_keys_and_times_are_not() -> None:
    assert through_json({date(2024, 1, 2): 1}, dict[date, int]) == {date(2024, 1, 2): 1}
    with pytest.raises(TopologyError, match="a time cannot be a key in JSON"):
        converter(dict[time, int])


def test_recursive_dataclasses_are_read_back() -> None:
    tree = Node("root", [Node("a"), Node("b", [Node("c")])])
    assert through_json(tree, Node) == tree


def test_missing_and_unknown_fields_are_accepted() -> None:
    assert converter(Order)({"id": 1, "lines": [], "unheard": 2}) == Order(1, [])


def test_a_deeply_nested_error_is_found_in_one_pass() -> None:
    raw: Any = {"name": 1}
    for _ in range(60):
        raw = {"name": "a", "children": [raw]}
    with pytest.raises(SerdeError, match=re.escape("Node" + ".children[0]" * 60 + ".name: expected str, got int 1")):
        converter(Node)(raw)


def test_a_field_outside_init_is_read_back() -> None:
    gift = Gift(1, [], to="me")
    gift.size = 3
    assert through_json(gift, Gift) == gift


def test_typed_dicts_convert_their_values() -> None:
    tag = Tag(name="a", line=Line(Sku("x"), 1.0))
    assert through_json({**tag, "more": 1}, Tag) == {**tag, "more": 1}


def test_an_int_becomes_the_declared_float() -> None:
    assert type(converter(Line)({"sku": "a", "price": 1}).price) is float


LINE = {"sku": "a", "price": 1.0}


@pytest.mark.parametrize(
    ("kind", "raw", "text"),
    [
        (Order, {"id": 1, "lines": [LINE, LINE, {**LINE, "price": "x"}]},
         "Order.lines[2].price: expected float, got str 'x'"),
        (Order, {"lines": []}, 'Order: field "id" of Order is missing and has no default'),
        (Order, {"id": 1, "lines": [{"sku": "a"}]},
         'Order.lines[0]: field "price" of Line is missing and has no default'),
        (Order, {"id": "1", "lines": []}, "Order.id: expected int, got str '1'"),
        (Order, {"id": 1, "lines": {}}, "Order.lines: expected list, got dict {}"),
        (Order, [], "Order: expected Order, got list []"),
        (dict[str, Line], {"a": {"sku": 1}}, "[\"a\"].sku: expected str, got int 1"),
        (Color, "green", "Color: expected Color, got str 'green'"),
        (tuple[int, str], [1], "expected tuple, got list [1]"),
        (datetime, "noon", "datetime: expected datetime, got str 'noon'"),
    ],
)  # fmt: skip
def test_errors_name_the_place(kind: Any, raw: Any, text: str) -> None:
    with pytest.raises(SerdeError, match=re.escape(text)):
        converter(kind)(raw)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Hidden, '"_secret" of Hidden starts with an underscore'),
        (Asks, '"x" of Asks is a parameter but not a field'),
        (Order | Line, "cannot be told apart in JSON"),
        (complex, "complex cannot be written as JSON"),
    ],
)
def test_types_that_json_would_change_are_refused_at_once(kind: Any, text: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(text)):
        converter(kind)
