"""Changes of field types: an accepted change reads old values unchanged, and harmless changes are accepted."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import date
from enum import Enum
from itertools import product
from typing import Any, Literal

import pytest

from streamtopo.engine.compatibility.field_types import readable
from streamtopo.serdes import serde_of
from streamtopo.serdes.record_fields import fields_of


class Colour(Enum):
    RED = "red"


class Color(Enum):
    RED = "red"
    BLUE = "blue"


VALUES: list[tuple[Any, list[Any]]] = [
    (int, [5, 0]),
    (float, [0.5]),
    (int | None, [5, None]),
    (int | str, [5, "x"]),
    (str, ["x", "2026-01-01"]),
    (bool, [True]),
    (date, [date(2026, 1, 1)]),
    (Literal["x"], ["x"]),
    (Colour, [Colour.RED]),
    (list, [[1, "x", None]]),
    (list[Any], [[1, {"a": 1}]]),
    (list[int], [[1], []]),
    (list[int | None], [[1, None]]),
    (list[float], [[0.5]]),
    (set[int], [{1}]),
    (tuple[int, ...], [(1, 2, 3)]),
    (tuple[int, int], [(1, 2)]),
    (dict, [{"a": 1}]),
    (dict[str, Any], [{"a": [1]}]),
    (dict[str, int], [{"1": 1}]),
    (dict[int, str], [{1: "x"}]),
    (dict[str, date], [{"a": date(2026, 1, 1)}]),
    (Any, [1, "x", [1], {"a": 1}]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=str)
def test_an_accepted_type_reads_the_same_value(kind: Any, values: list[Any]) -> None:
    before = row(kind)
    for after, value in product([row(other) for other, _ in VALUES], values):
        types = fields_of(before)["field"], fields_of(after)["field"]
        if readable(*types):
            assert serde_of(after).decode(serde_of(before).encode(before(value))).field == value, types
        if readable(*types, key=True):
            written = [serde_of(kind, key=True).encode(kind(value)) for kind in (before, after)]
            assert written[0] == written[1], types


def row(kind: Any) -> Any:
    return make_dataclass("Row", [("field", kind)])


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (dict, dict[str, Any]),
        (dict[str, Any], dict),
        (list, list[Any]),
        (list[str], list),
        (int, int | None),
        (int, float),
        (list[int], list[int | None]),
        (dict[str, int], dict[str, int | None]),
        (dict[str, list[int]], Any),
        (Colour, Color),
    ],
)
def test_harmless_changes_are_accepted(was: Any, now: Any) -> None:
    before, after = (fields_of(row(kind))["field"] for kind in (was, now))
    assert readable(before, after)
