"""Tables: changed row by row, joined by key, and finally grouped or joined by a foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_JOINERS = ["concat_plus", "concat_dash", "pair_parens"]
_FOREIGN_KEYS: list[Any] = [
    {"name": "lookup_value", "arg": [["1", "A"], ["2", "B"], ["30", "A"]]},
    {"name": "split_get", "arg": 0},
    "key",
]


def tables(growing: Any, stream: str) -> str:
    random = growing.random
    left = changed(growing, table(growing, stream))
    right = changed(growing, table(growing, growing.source()))
    growing.subject = "tables"
    for _ in range(random.choice([0, 1, 1, 2])):
        sides = random.choice([(left, right), (left, left), (right, left)])
        left = changed(growing, joined(growing, *sides))
    if growing.chance(0.25):
        growing.add("capture_changes", left, topic="changes", old_values=growing.chance(0.6), force=growing.chance(0.7))
    match random.choice(["as it is", "grouped", "foreign key"]):
        case "grouped":
            left = grouped(growing, left)
        case "foreign key":
            left = foreign(growing, left, right)
    return str(growing.add("to_stream", left))


def table(growing: Any, stream: str) -> str:
    return str(growing.add("to_table", stream, **kept(growing)))


def kept(growing: Any) -> dict[str, str]:
    return {"store": f"kept{len(growing.steps)}"} if growing.chance(0.4) else {}


def changed(growing: Any, before: str) -> str:
    """Return the table after none, one or two operators that work on one row."""
    random = growing.random
    for _ in range(random.choice([0, 0, 1, 2])):
        match random.choice(["filter", "filter_not", "map_values", "transform_values"]):
            case "map_values":
                fn: Any = random.choice(["arrow_exclaim", {"name": "null_if_value_equals", "arg": "1"}])
                before = growing.add("map_values", before, fn=fn, **kept(growing))
            case "transform_values":
                before = growing.add("transform_values", before, fn="arrow_exclaim", **kept(growing))
            case op:
                before = growing.add(op, before, fn={"name": "value_equals", "arg": "2"}, **kept(growing))
    return before


def joined(growing: Any, left: str, right: str) -> str:
    kind, joiner = growing.random.choice(["inner", "left", "outer"]), growing.random.choice(_JOINERS)
    return str(growing.add("join_tables", left, other=right, kind=kind, joiner=joiner, **kept(growing)))


def grouped(growing: Any, before: str) -> str:
    fn = growing.random.choice(["identity_kv", "value_as_key_and_value", {"name": "const_key", "arg": "all"}])
    group = growing.add("group_by", before, fn=fn)
    match growing.random.choice(["count", "reduce", "aggregate"]):
        case "count":
            return str(growing.add("count", group, **kept(growing)))
        case "reduce":
            return str(growing.add("reduce", group, fn="concat_plus", subtractor="concat_minus", **kept(growing)))
    return str(growing.add("aggregate", group, init="0", fn="concat_plus", subtractor="concat_minus", **kept(growing)))


def foreign(growing: Any, left: str, right: str) -> str:
    kind, joiner = growing.random.choice(["inner", "left"]), growing.random.choice(_JOINERS)
    fk = growing.random.choice(_FOREIGN_KEYS)
    return str(growing.add("fk_join", left, other=right, kind=kind, fk_fn=fk, joiner=joiner, **kept(growing)))


PARTS: list[Callable[[Any, str], str]] = [tables]
