"""Random types, JSON of their values, and damage to it: all of it from a seed."""

from __future__ import annotations

import dataclasses
import json
import string
import types
import typing
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any, Literal, TypedDict
from uuid import UUID

from streamtopo.serdes.json_types import hints_of


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Movie(TypedDict):
    title: str
    year: int
    rating: float | None


@dataclasses.dataclass
class Shouting:
    """Has code of its own: what it holds is not what the JSON has."""

    name: str
    times: int = 1

    def __post_init__(self) -> None:
        self.name = self.name.upper()
        if self.times < 0:
            raise ValueError(self.times)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0
    label: str | None = None


@dataclasses.dataclass
class Counted:
    name: str
    seen: list[int] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(default=0, init=False)
    wrong: int = None  # type: ignore[assignment]


SCALARS = [str, int, float, bool, datetime, date, time, UUID, Decimal, Any]
RECORDS = [Movie, Shouting, Point, Counted]
CHOICES = [Colour, Level, Mixed, Literal["a", "b"], Literal[1, 2], Literal["a", None], Literal[1, "x"]]
WEIRD = [
    *("null", "true", "false", "0", "-0", "1.0", "1e2", "01", "+5", ".5", "NaN", "Infinity", "1e400", '"NaN"', '"1"'),
    *('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"12000-01-01"', '"2026-02-30"'),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" * 30, "1" * 45, "1e16", "-0.0", "[]"),
    *("{}", '""', '"\\ud800"', '"a\tb"', '"\\u0000"', "[null]", '{"x":1}', "[[[[1]]]]", "'a'"),
    *('"1e50"', '"0.1234567890123456789"', "[1,2", '{"x":1,"x":2}'),
]


def random_kind(random: Random, depth: int = 3) -> Any:
    if depth == 0 or random.random() < 0.4:
        return random.choice([*SCALARS, *SCALARS, *RECORDS, *CHOICES])
    inner = [random_kind(random, depth - 1) for _ in range(2)]
    makers: list[Callable[[], Any]] = [
        lambda: list[inner[0]],  # type: ignore[valid-type]
        lambda: dict[str, inner[0]],  # type: ignore[valid-type]
        lambda: dict[random.choice([int, float, bool, date, UUID, Colour]), inner[0]],  # type: ignore[misc]
        lambda: set[random.choice([str, int, Colour])],  # type: ignore[misc]
        lambda: tuple[inner[0], ...],  # type: ignore[valid-type]
        lambda: tuple[inner[0], inner[1]],  # type: ignore[valid-type]
        lambda: inner[0] | None,
        lambda: random.choice([int | str, float | bool, str | list[int]]),
        lambda: random_record(random, depth - 1),
    ]
    try:
        return random.choice(makers)()
    except TypeError:  # Any | None and others
        return inner[0]


def random_record(random: Random, depth: int) -> Any:
    fields: list[Any] = []
    for name in random.sample(string.ascii_letters, random.randint(1, 5)):
        kind = random_kind(random, depth)
        if fields and len(fields[-1]) == 3:
            fields.append((name, kind, random.choice([None, dataclasses.field(default_factory=list)])))
        elif random.random() < 0.2:
            fields.append((name, kind, None))
        else:
            fields.append((name, kind))
    return dataclasses.make_dataclass("Made", fields, frozen=random.random() < 0.3)


def random_json(random: Random, kind: Any) -> str:
    """The JSON of a value of this type, for the most part."""
    if random.random() < 0.01:
        return random.choice(WEIRD)
    origin: Any = typing.get_origin(kind) or kind
    arguments: tuple[Any, ...] = typing.get_args(kind)

    def some(one: Any) -> str:
        return random_json(random, one)

    if origin is Literal:
        return json.dumps(random.choice(arguments))
    if type(None) in arguments and random.random() < 0.3:
        return "null"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return some(random.choice([one for one in arguments if one is not type(None)]))
    if origin is tuple and arguments[-1] is not ...:
        return f"[{','.join(map(some, arguments))}]"
    if origin in (list, set, tuple):
        return f"[{','.join(some(arguments[0]) for _ in range(random.randint(0, 3)))}]"
    if origin is dict:
        return (
            f"{{{','.join(f'{_key(some(arguments[0]))}:{some(arguments[1])}' for _ in range(random.randint(0, 3)))}}}"
        )
    if isinstance(kind, type) and issubclass(kind, Enum):
        return json.dumps(random.choice(list(kind)).value)
    if kind in _FORMS:
        return _FORMS[kind](random)
    hints = hints_of(kind)
    left_out = 0.15 if random.random() < 0.1 else 0
    parts = [f'"{name}":{some(hint)}' for name, hint in hints.items() if random.random() >= left_out]
    if random.random() < 0.05:
        parts.append(f'"{random.choice(string.ascii_letters)}":{random.choice(WEIRD)}')
    return f"{{{','.join(parts)}}}"


def _key(text: str) -> str:
    return text if text.startswith('"') else json.dumps(text)


def _one_of(*texts: str) -> Callable[[Random], str]:
    return lambda random: random.choice(texts)


_FORMS: dict[Any, Callable[[Random], str]] = {
    str: _one_of('""', '"a"', '"Gr\\u00f6\\u00dfe"', '"😀"', '"null"', '"\\"\\\\"', f'"{"x" * 50}"'),
    int: _one_of("0", "1", "-1", str(2**53 + 1), str(2**63 - 1), str(-(2**63)), "123456789012"),
    float: _one_of("0.1", "1", "-0.0", "1e300", "5e-324", "12345678901234567890", "0.30000000000000004"),
    bool: _one_of("true", "false"),
    datetime: _one_of('"2026-11-18T09:30:00.123456+02:00"', '"1969-01-01T00:00:00"', '"2026-11-18"'),
    date: _one_of('"2026-11-18"', '"0001-01-01"', '"20261118"'),
    time: _one_of('"09:30"', '"09:30:00.5+01:00"'),
    UUID: lambda random: f'"{UUID(int=random.getrandbits(128))}"',
    Decimal: _one_of('"1.50"', "2", "1.5", '"-0"', '"1E+3"', '"99999999999999999999.5"'),
    Any: _one_of("null", "true", "0", "1.0", "1e2", "-7", '"x"', '{"a":[1,2.5,{"b":null}]}', '["x",true]'),
}
_PIECES = (b"\xff", b" ", b"\n", b'"', b"}", b"0", b"\\", b"\xc3\xa4", b"\x00")


def damaged(random: Random, data: bytes) -> bytes:
    """The bytes, or something a little different."""
    way, at = random.randrange(60), random.randrange(len(data) + 1)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + random.choice(_PIECES) + data[at:]
    if way == 2 and at < len(data):
        return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
    others = {3: b"", 4: b"\xef\xbb\xbf" + data, 5: data + data, 6: data + b"garbage", 7: b" " + data + b"\n"}
    return others.get(way, data)
