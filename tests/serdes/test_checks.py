"""Values are refused, or are read back unchanged, on every path alike."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import GenericAlias
from typing import Any, Literal, NewType, TypedDict, get_args, get_origin
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo.errors import SerdeError, TopologyError
from streamtopo.serdes import Serde, serde_of

Sku = NewType("Sku", str)


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Pair(enum.Enum):
    ONE = (1, 1)
    TWO = (1, 2)


class Text(str, enum.Enum):  # noqa: UP042
    A = "a"


@dataclass
class Line:
    sku: Sku
    price: float = 0.0
    count: int = 1
    note: str | None = None
    done: bool = False


@dataclass
class Gift(Line):
    to: str = ""


@dataclass
class Tree:
    name: str
    leaves: list[Tree] = field(default_factory=list)


@dataclass
class Doubled:
    total: int

    def __post_init__(self) -> None:
        self.total *= 2


@dataclass(eq=False)
class Unequal:
    x: int = 0


class Tag(TypedDict, total=False):
    name: str
    line: Line


class Person(pydantic.BaseModel):
    name: str
    age: int | None = None
    weight: float = 1.0
    tags: list[str] = []
    secret: str = pydantic.Field(default="", exclude=True)


class Point(msgspec.Struct):
    x: int
    y: float | None = None
    tags: list[str] = []


class Anonymous(msgspec.Struct, eq=False):
    x: int


SCALARS: list[Any] = [str, int, float, bool, datetime, date, time, UUID, Decimal, Color, Level, Pair, Sku, Any]
SCALARS += [Literal["a", 2, True], Literal[Color.RED, "blue"]]
KEYS: list[Any] = [str, int, float, bool, datetime, date, UUID, Color, Level, Pair, Text, Sku, Literal["a", 2], Any]
MODELS: list[Any] = [Line, Tree, Doubled, Unequal, Tag, Person, Point, Anonymous, dict, list, set, tuple]
kinds = st.recursive(
    st.sampled_from(SCALARS + MODELS),
    lambda inner: st.one_of(
        inner.map(lambda kind: GenericAlias(list, kind)),
        inner.map(lambda kind: GenericAlias(tuple, (kind, ...))),
        st.tuples(inner, inner).map(lambda pair: GenericAlias(tuple, pair)),
        st.sampled_from(KEYS).map(lambda kind: GenericAlias(frozenset, kind)),
        st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: GenericAlias(dict, pair)),
        inner.map(lambda kind: kind | None),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: dataclasses.make_dataclass("Made", [(f"f{at}", kind) for at, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=4,
)

zones = st.none() | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
numbers = st.integers(-(2**70), 2**70) | st.integers(-3, 3) | st.floats() | st.booleans()
texts = st.text(max_size=3) | st.sampled_from(["2024-01-01", "a", "1", "1.5", "true", "null", "red", "\ud800", "NaN"])
atoms: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    numbers,
    texts,
    st.datetimes(timezones=zones),
    st.dates(),
    st.times(),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.binary(max_size=2),
    st.sampled_from([*Color, *Level, *Pair, *Text]),
    st.builds(Line, texts, numbers, numbers, st.none() | texts, st.booleans()),
    st.builds(Gift, texts, to=texts),
    st.builds(Doubled, st.integers(0, 3)),
    st.builds(Unequal, st.integers(0, 3)),
    st.builds(Tree, texts, st.lists(st.builds(Tree, texts), max_size=2)),
    st.builds(Person, name=st.text(max_size=2), weight=st.floats(), secret=st.sampled_from(["", "x"])),
    st.builds(Person.model_construct, name=texts, age=numbers),
    st.builds(Point, numbers, st.none() | st.floats(), st.lists(texts, max_size=1) | st.just(("a",))),
    st.builds(Anonymous, numbers),
)
anything = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(texts | numbers, inner, max_size=2),
        st.sets(texts | numbers, max_size=2),
        st.just(Counter("aab")),
    ),
    max_leaves=4,
)


BUILT: dict[Any, st.SearchStrategy[Any]] = {
    Any: anything,
    float: st.floats() | st.integers(-(2**60), 2**60),
    str: texts,
    Line: st.builds(Line, texts, st.floats() | st.integers(0, 9), st.integers(-(2**70), 2**70), st.none() | texts),
    Tree: st.builds(Tree, texts, st.lists(st.builds(Tree, texts), max_size=2)),
    Tag: st.fixed_dictionaries({}, optional={"name": texts, "line": st.builds(Line, texts), "more": anything}),
    Person: st.builds(Person, name=st.text(max_size=2), weight=st.floats()),
    Point: st.builds(Point, st.integers(-(2**70), 2**70), st.none() | st.floats()),
    dict: st.dictionaries(texts, anything, max_size=3),
    list: st.lists(anything, max_size=3),
    tuple: st.lists(anything, max_size=3).map(tuple),
    set: st.sets(texts),
    datetime: st.datetimes(timezones=zones),
    time: st.times(),
}


def fitting(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a type, with some of any other type among them."""
    fit = of_type(getattr(kind, "__supertype__", kind))
    return st.one_of(fit, fit, fit, fit, fit, fit, anything)


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in BUILT:
        return BUILT[kind]
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is dict:
        return st.dictionaries(hashable(arguments[0]), fitting(arguments[1]), max_size=2)
    if origin is frozenset:
        return st.frozensets(hashable(arguments[0]), max_size=2)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*map(fitting, arguments))
    if origin in (list, tuple):
        return st.lists(fitting(arguments[0]), max_size=2).map(origin)
    if origin is not None:
        return st.one_of(*map(of_type, arguments))
    if kind.__name__ == "Made":
        return st.builds(kind, *(fitting(part.type) for part in dataclasses.fields(kind)))
    return st.from_type(kind)


def hashable(kind: Any) -> st.SearchStrategy[Any]:
    return (
        st.one_of(texts, numbers)
        if kind is Any
        else st.one_of(*[of_type(getattr(kind, "__supertype__", kind))] * 4, numbers)
    )


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of equal types; an int may be read as a float, a zone as its offset."""
    if type(one) is int and type(other) is float:
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, Decimal)):
        return repr(one) == repr(other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(alike(item, twin) for twin in other) for item in one)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            any(alike(key, twin) and alike(item, other[twin]) for twin in other) for key, item in one.items()
        )
    if dataclasses.is_dataclass(one):
        return all(alike(getattr(one, part.name), getattr(other, part.name)) for part in dataclasses.fields(one))
    return (isinstance(one, Anonymous) and one.x == other.x) or bool(one == other)


def written(serde: Serde, value: Any) -> bytes | str:
    """Return a value's bytes, or why it was refused."""
    try:
        return serde.encode(value)
    except SerdeError as error:
        return str(error)


@given(kinds, st.booleans(), st.data())
@settings(max_examples=600, deadline=None)
def test_written_values_are_read_back(kind: Any, key: bool, data: st.DataObject) -> None:
    try:
        serde = serde_of(kind, key=key)
    except TopologyError:
        return
    values = [value for value in data.draw(st.lists(fitting(kind), min_size=1, max_size=4)) if value is not None]
    one_by_one = [written(serde, value) for value in values]
    for value, found in zip(values, one_by_one, strict=True):
        if isinstance(found, bytes):
            back = serde.decode(found)
            assert alike(value, back), (kind, value, found, back)
            assert alike(serde.decode_column([found])[0], back)
    for column in (values, values * 4):  # short columns are checked one by one, long ones at once
        if all(isinstance(found, bytes) for found in one_by_one):
            assert serde.encode_column(column) == one_by_one * (len(column) // max(1, len(values)))
        else:
            with pytest.raises(SerdeError, match=re.escape(next(why for why in one_by_one if isinstance(why, str)))):
                serde.encode_column(column)


LARGE = 2**70


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (dict, {"id": LARGE, "below": -LARGE, "least": -(2**63) - 1, "most": 2**64}),
        (int | str, LARGE),
        (list[int], [LARGE]),
        (list[Line], [Line(Sku("a"), count=LARGE)]),
        (list[Color | int], [LARGE, Color.RED]),
        (Person, Person(name="a", age=LARGE)),
        (Point, Point(LARGE)),
        (dict[bool, int], {True: 1, False: 2}),
        (dict[Level, int], {Level.HIGH: 1}),
        (dict[Color, int], {Color.RED: 1, Color.BLUE: 2}),
        (dict[Literal["a", 2], int], {"a": 1, 2: 2}),
        (dict[date, int], {date(2024, 1, 2): 1}),
        (list[Pair], [Pair.ONE, Pair.TWO]),
        (list[Literal[Color.RED, "blue"]], [Color.RED, "blue"]),
        (list[float | int], [1, 1.0, 2**60 + 1]),
        (list[int | bool], [1, True]),
        (list[list[float] | int], [[1.5], 1]),
        (list[datetime | str], ["a", datetime(2024, 1, 2)]),
        (list[Decimal], [Decimal("1.10"), Decimal("1e400")]),
        (list[Anonymous], []),
    ],
    ids=str,
)
@pytest.mark.parametrize("key", [False, True])
def test_an_accepted_value_is_read_back(kind: Any, value: Any, key: bool) -> None:
    serde = serde_of(kind, key=key)
    (data,) = serde.encode_column([value])
    assert data == serde.encode(value)
    assert alike(value, serde.decode_column([data])[0]), data
    assert serde.decode(b" " + data) == value


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (dict, {"a": {"n": [1, NAN]}}, 'dict["a"]["n"][1]: JSON has no nan'),
        (dict, {"a": INF, "b": -INF}, 'dict["a"]: JSON has no inf'),
        (Any, NAN, "JSON has no nan"),
        (int | float, INF, "JSON has no inf"),
        (list[float], [1.0, -INF], "list[float][1]: JSON has no -inf"),
        (Line, Line(Sku("a"), NAN), "Line.price: JSON has no nan"),
        (Person, Person(name="a", weight=NAN), "Person Person(name='a', "),
        (Point, Point(1, NAN), "Point(x=1, y=nan, tags=[]) would come back as Point Point(x=1, y=None, tags=[])"),
        (list[Point], [Point(1, NAN)], "list[tests.serdes.test_checks.Point][0]: Point Point(x=1, y=nan"),
        (dict[float, int], {NAN: 1}, "JSON has no nan"),
        (dict, "text", "expected dict, got str 'text'"),
        (dict, Counter("a"), "expected dict, got Counter"),
        (dict, {"a": Counter("a")}, 'dict["a"]: JSON cannot restore Counter'),
        (dict, {"a": (1, 2)}, 'dict["a"]: JSON cannot restore tuple (1, 2)'),
        (dict, {"a": {1, 2}}, 'dict["a"]: JSON cannot restore set {1, 2}'),
        (dict, {"a": b"b"}, 'dict["a"]: JSON cannot restore bytes'),
        (dict, {"a": Text.A}, 'dict["a"]: JSON cannot restore Text'),
        (dict, {"a": UUID(int=1)}, 'dict["a"]: JSON cannot restore UUID'),
        (dict, {"a": datetime(2024, 1, 2)}, 'dict["a"]: JSON cannot restore datetime'),
        (dict, {1: 2}, 'dict["1"]: expected str, got int 1'),
        (dict, {"a": "\ud800"}, "surrogates not allowed"),
        (dict[str, int], {"a": None}, 'dict[str, int]["a"]: expected int, got NoneType None'),
        (int | list[bool], 1.5, "expected int | list[bool], got float 1.5"),
        (list[Line], [{"sku": "a"}], "[0]: expected Line, got dict {'sku': 'a'}"),
        (list[Line], [Gift(Sku("a"))], "[0]: expected Line, got Gift"),
        (Line, Gift(Sku("a")), "expected Line, got Gift"),
        (Line, Line(Sku("a"), True), "Line.price: expected float, got bool True"),
        (Line, Line(Sku("a"), 2**60 + 1), f"Line.price: int {2**60 + 1} is not exact as a float"),
        (Tree, Tree("a", [Tree("b", [Tree(1)])]), "Tree.leaves[0].leaves[0].name: expected str, got int 1"),  # type: ignore[arg-type]
        (Tag, {"line": {}}, "Tag.line: expected Line, got dict {}"),
        (Tag, {"more": (1,)}, "Tag.more: JSON cannot restore tuple (1,)"),
        (Doubled, Doubled(1), "Doubled Doubled(total=2) would come back as Doubled Doubled(total=4)"),
        (tuple[int, str], (1,), "expected tuple, got tuple (1,)"),
        (list[datetime | str], ["2024-01-01"], "str '2024-01-01' would come back as datetime"),
        (dict[int, int], {True: 1}, '["True"]: expected int, got bool True'),
        (list[date], [datetime(2024, 1, 2)], "[0]: expected date, got datetime"),
        (Person, Person(name="a", secret="b"), "would come back as Person"),
        (Person, Person.model_construct(name=1), "could be written, but not be read again"),
        (Point, Point("a"), "could be written, but not be read again"),  # type: ignore[arg-type]
        (Point, Point(1, tags=("a",)), "would come back as Point"),  # type: ignore[arg-type]
    ],
)
def test_an_unsuitable_value_is_refused(kind: Any, value: Any, text: str) -> None:
    for encode in (serde_of(kind).encode, lambda value: serde_of(kind).encode_column([value] * 4)):
        with pytest.raises(SerdeError, match=re.escape(text)):
            encode(value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Any, [1, "a", 1.5, True, [], {}, {"a": [1.5, {"b": [None]}, [[]]]}]),
        (dict, [{}, {"a": 1, "b": None, "c": 0.1}, {"a": {"b": {"c": [1, "d", {"e": 2.5}]}}, "f": [1, [2]]}]),
        (dict[str, float], [{"a": 1, "b": -0.0}, {"a": 0.5}, {}]),
        (dict[int, list[Line]], [{1: [Line(Sku("a"))]}, {2: []}]),
        (int | float | str, [1, 1.5, "a"]),
        (list[int | list[str] | None], [[1, ["a"], None]]),
        (Line, [Line(Sku("a"), 1, 2, "b", True), Line(Sku("c"))]),
        (Unequal, [Unequal(1)]),
        (Tree, [Tree("a", [Tree("b", [Tree("c")]), Tree("d")]), Tree("e")]),
        (Tag, [{}, {"name": "a"}, {"line": Line(Sku("a")), "more": [{"b": 1.5}]}]),
        (list[tuple[str, int] | None], [[("a", 1), None], []]),
        (list[Literal["a", 2] | None], [["a"], [2, None]]),
        (set[int], [{1, 2}, set()]),
        (Person, [Person(name="a", age=1), Person(name="b")]),
        (Point, [Point(1, 2), Point(3)]),
    ],
    ids=str,
)
def test_whole_columns_are_checked_at_once(kind: Any, values: list[Any]) -> None:
    serde = serde_of(kind)
    fast = serde.fast_encode
    assert fast is not None
    written = [serde.encode(value) for value in values]
    assert fast(values * 4) == written * 4
    assert serde.encode_column([*values, None] * 4) == [*written, None] * 4


TWICE: list[Any] = []
TWICE += [TWICE, TWICE]
FOREST = Tree("a")
FOREST.leaves += [FOREST, FOREST]


@pytest.mark.parametrize(("kind", "value"), [(list, TWICE), (Tree, FOREST), (Any, {"a": TWICE})], ids=["0", "1", "2"])
def test_values_that_contain_themselves_are_refused(kind: Any, value: Any) -> None:
    for encode in (serde_of(kind).encode, lambda value: serde_of(kind).encode_column([value] * 4)):
        with pytest.raises(SerdeError, match="recursion"):
            encode(value)


@pytest.mark.parametrize("value", [Line(Sku("a"), 1), Line(Sku("a"), count=True)])
def test_numbers_in_keys_must_be_exactly_of_their_types(value: Any) -> None:
    """Equal keys that contain 1 and 1.0 would be two rows."""
    assert serde_of(Line).decode(serde_of(Line).encode(value)) == value
    with pytest.raises(SerdeError, match="expected"):
        serde_of(Line, key=True).encode(value)


@pytest.mark.parametrize(
    "kind", [dict[tuple[int, int], int], dict[int | str, int], dict[Decimal, int], dict[time, int], dict[Pair, int]]
)
def test_keys_that_json_cannot_represent_are_refused_at_once(kind: Any) -> None:
    with pytest.raises(TopologyError, match=r"cannot be a key in JSON; use str|cannot be written as JSON"):
        serde_of(kind)


def test_union_members_that_json_cannot_distinguish_are_refused_at_once() -> None:
    Mixed = enum.Enum("Mixed", {"ONE": 1, "TEXT": "1"})
    assert serde_of(list[Mixed]).decode(b'[1,"1"]') == [Mixed.ONE, Mixed.TEXT]
    with pytest.raises(TopologyError, match="two members of Mixed are the same in JSON"):
        serde_of(dict[Mixed, int])


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        (dict, b'{"x":null}', {"x": None}),
        (dict, b'"text"', "text"),
        (dict[str, int], b'{"x":1.5}', {"x": 1.5}),
        (list[Line], b'[{"sku":"a","price":1,"count":true}]', [Line(Sku("a"), 1.0, True)]),
        (dict, b'{"x":1.5e300,"y":"12345678901234567890123"}', {"x": 1.5e300, "y": "12345678901234567890123"}),
        (dict, b'{"x":0.12345678901234567890123}', {"x": 0.12345678901234568}),
    ],
)
def test_old_data_is_read_as_before(kind: Any, data: bytes, value: Any) -> None:
    assert serde_of(kind).decode(data) == value == serde_of(kind).decode_column([data])[0]
