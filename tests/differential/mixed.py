"""Operators of all areas in one topology: each takes the results that are there, and adds its own to them.

Not among the parts that run by themselves, since two kinds of difference are known where a table is grouped behind
an aggregation or `suppress`: for the old value Kafka Streams takes the initial value, or one that was held back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.differential import tables, windowed

_JOINERS = ["concat_plus", "concat_dash", "pair_parens"]
_KEPT = 100_000


@dataclass(frozen=True)
class Made:
    """A stream or table; only those with the same keys, plain or with a window, can meet."""

    id: str
    table: bool
    windowed: bool = False
    versioned: bool = False


def mixed(growing: Any, stream: str) -> str:
    pool = [Made(stream, table=False)]
    growing.subject = "mixed"
    pool.append(_source_table(growing) if growing.chance(0.6) else Made(growing.source(), table=False))
    for _ in range(growing.random.randint(2, 6)):
        one = pool[-1] if growing.chance(0.6) else growing.random.choice(pool)
        made = _on_table(growing, one, pool) if one.table else _on_stream(growing, one, pool)
        if made is not None:
            pool.append(made)
    last = pool[-1]
    out = growing.add("to_stream", last.id) if last.table else last.id
    growing.add("to", out, topic="output")
    return str(out)


def _source_table(growing: Any) -> Made:
    versioned = growing.chance(0.3)
    kind = (
        {"store_type": "versioned", "history_retention_ms": growing.random.choice([0, 10, 1000])} if versioned else {}
    )
    growing.inputs.append(f"in{len(growing.inputs)}")
    id = growing.add("table", None, topic=growing.inputs[-1], store=f"kept{len(growing.steps)}", **kind)
    return Made(id, table=True, versioned=versioned)


def _other(growing: Any, one: Made, pool: list[Made], *, table: bool) -> Made | None:
    fitting = [other for other in pool if other.table == table and other.windowed == one.windowed and other != one]
    return growing.random.choice(fitting) if fitting else None


def _on_stream(growing: Any, one: Made, pool: list[Made]) -> Made | None:
    random, join = growing.random, {"kind": growing.random.choice(["inner", "left"])}
    joiner = random.choice(_JOINERS)
    keyed = ["aggregate", "window", "window"] if not one.windowed else ["aggregate"]
    match random.choice(
        ["values", "select_key", "merge", "to_table", "table", "table", "stream", "stream", "global", *keyed]
    ):
        case "values":
            return Made(growing.add("map_values", one.id, fn="to_string"), False, one.windowed)
        case "select_key":
            return Made(growing.add("select_key", one.id, fn="to_string"), False)
        case "merge":
            other = _other(growing, one, pool, table=False)
            return other and Made(growing.add("merge", one.id, other=other.id), False, one.windowed)
        case "to_table":
            return Made(growing.add("to_table", one.id, **tables.kept(growing)), True, one.windowed)
        case "table":
            other = _other(growing, one, pool, table=True)
            if other is None:
                return None
            grace = {"grace_ms": random.choice([0, 3, 10])} if other.versioned and growing.chance(0.4) else {}
            return Made(
                growing.add("join_stream_table", one.id, table=other.id, joiner=joiner, **join, **grace),
                False,
                one.windowed,
            )
        case "stream":
            other = _other(growing, one, pool, table=False)
            if other is None:
                return None
            join["kind"] = random.choice(["inner", "left", "outer"])
            span = {name: random.choice([0, 1, 5, 10]) for name in ("before_ms", "after_ms", "grace_ms")}
            return Made(
                growing.add("join_streams", one.id, other=other.id, joiner=joiner, **span, **join), False, one.windowed
            )
        case "global":
            if one.windowed:
                return None
            growing.inputs.append(f"in{len(growing.inputs)}")
            world = growing.add("global_table", None, topic=growing.inputs[-1])
            return Made(
                growing.add("join_stream_global", one.id, table=world, key_fn="key", joiner=joiner, **join), False
            )
        case "aggregate":
            grouped = growing.add("group_by_key", one.id)
            if growing.chance(0.5):
                return Made(growing.add("count", grouped, **tables.kept(growing)), True, one.windowed)
            return Made(growing.add("reduce", grouped, fn="concat_plus", **tables.kept(growing)), True, one.windowed)
    return _window(growing, one)


def _window(growing: Any, one: Made) -> Made:
    window = windowed.random_window(growing)
    emit = {}
    if window["type"] != "unlimited" and growing.chance(0.3):
        emit = {"emit": "on_window_close"}
    before = growing.add("windowed_by", growing.add("group_by_key", one.id), window=window, **emit)
    keep = {"retention_ms": _KEPT, "store": f"kept{len(growing.steps)}"} if window["type"] != "unlimited" else {}
    if growing.chance(0.5):
        table = growing.add("count", before, **keep)
    else:
        table = growing.add("reduce", before, fn="concat_plus", **keep)
    if window["type"] not in ("unlimited", "sliding") and growing.chance(0.3):
        table = growing.add("suppress", table, until="window_closes")
    return Made(table, True, windowed=True)


def _on_table(growing: Any, one: Made, pool: list[Made]) -> Made | None:
    random = growing.random
    match random.choice(
        ["changed", "to_stream", "to_stream", "to_stream", "join", "join", "group", "group", "suppress", "fk"]
    ):
        case "changed":
            op, fn = random.choice(
                [
                    ("filter", {"name": "value_equals", "arg": "2"}),
                    ("filter_not", {"name": "value_equals", "arg": "1"}),
                    ("map_values", "to_string"),
                    ("map_values", {"name": "null_if_value_equals", "arg": "1"}),
                ]
            )
            return Made(growing.add(op, one.id, fn=fn, **tables.kept(growing)), True, one.windowed)
        case "to_stream":
            if one.windowed and growing.chance(0.3):
                return Made(growing.add("to_stream", one.id, key_fn="to_string"), False)
            return Made(growing.add("to_stream", one.id), False, one.windowed)
        case "join":
            other = _other(growing, one, pool, table=True)
            return other and Made(tables.joined(growing, one.id, other.id), True, one.windowed)
        case "group":
            fn = random.choice(["value_as_key_and_value", {"name": "const_key", "arg": "all"}])
            group = growing.add("group_by", one.id, fn=fn)
            if growing.chance(0.5):
                return Made(growing.add("count", group, **tables.kept(growing)), True)
            return Made(
                growing.add("reduce", group, fn="concat_plus", subtractor="concat_minus", **tables.kept(growing)), True
            )
        case "suppress":
            if one.versioned:
                return None
            bound = {"max_records": random.choice([1, 2]), "on_full": "emit_early"} if growing.chance(0.4) else {}
            return Made(
                growing.add("suppress", one.id, until="time_limit", time_ms=random.choice([0, 1, 5, 10]), **bound),
                True,
                one.windowed,
            )
    other = _other(growing, Made("", True), pool, table=True)
    if other is None:
        return None
    return Made(tables.foreign(growing, one.id, other.id), True, one.windowed)


PARTS: list[Callable[[Any, str], str]] = [mixed]
