"""Operators of all kinds in one topology: each takes earlier results, and adds its own to them.

Documented differences (docs/inside/decisions.md) are left out: old values sent by a count and by `suppress`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.differential import tables, windowed

_JOINERS = ["concat_plus", "concat_dash", "pair_parens"]
_KEPT = 100_000


@dataclass(frozen=True)
class Made:
    """A stream or table; two can be joined if they have the same keys, plain or with a window."""

    id: str
    table: bool
    windowed: str = ""
    """The kind and size of its windows, if its keys have windows."""
    versioned: bool = False
    numbers: bool = False
    """Its values are not strings, which some functions need."""
    unlike: bool = False
    """Old values differ from those of Kafka Streams: after a count its 0, after `suppress` all of them."""


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
            return Made(growing.add("select_key", one.id, fn="to_string"), False, numbers=one.numbers)
        case "merge":
            other = _other(growing, one, pool, table=False)
            id = growing.add("merge", one.id, other=other.id) if other else ""
            return other and Made(id, False, one.windowed, numbers=one.numbers or other.numbers)
        case "to_table":
            table = growing.add("to_table", one.id, **tables.kept(growing))
            return Made(table, True, one.windowed, numbers=one.numbers)
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
            if other is None or (_rekeyed(growing, one.id) and _rekeyed(growing, other.id)):
                return None  # two repartition topics: records with equal times may come in either order
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
            return _aggregated(growing, one, grouped, one.windowed, tables.kept(growing))
    return _window(growing, one)


def _rekeyed(growing: Any, id: str) -> bool:
    (step,) = (step for step in growing.steps if step["id"] == id)
    if step["op"] in ("select_key", "to_stream"):
        return step["op"] == "select_key" or "key_fn" in step
    before = (step["from"], step.get("other")) if step["op"] in ("map_values", "flat_map_values", "merge") else ()
    return any(_rekeyed(growing, other) for other in before if other)


def _aggregated(growing: Any, one: Made, grouped: str, by_window: str, keep: dict[str, Any], **reduce: str) -> Made:
    if growing.chance(0.5):
        return Made(growing.add("count", grouped, **keep), True, by_window, numbers=True, unlike=True)
    table = growing.add("reduce", grouped, fn="concat_plus", **keep, **reduce)
    return Made(table, True, by_window, numbers=one.numbers)


def _window(growing: Any, one: Made) -> Made:
    window = windowed.random_window(growing)
    emit = {}
    if window["type"] != "unlimited" and growing.chance(0.3):
        emit = {"emit": "on_window_close"}
    before = growing.add("windowed_by", growing.add("group_by_key", one.id), window=window, **emit)
    keep = {"retention_ms": _KEPT, "store": f"kept{len(growing.steps)}"} if window["type"] != "unlimited" else {}
    kind = " ".join(str(window[name]) for name in window if name in ("type", "size_ms", "time_difference_ms"))
    made = _aggregated(growing, one, before, kind, keep)
    if window["type"] not in ("unlimited", "sliding") and growing.chance(0.3):
        return replace(made, id=growing.add("suppress", made.id, until="window_closes"), unlike=True)
    return made


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
            id = growing.add(op, one.id, fn=fn, **tables.kept(growing))
            return replace(one, id=id, versioned=False, numbers=one.numbers and fn != "to_string")
        case "to_stream":
            if one.windowed and growing.chance(0.3):
                return Made(growing.add("to_stream", one.id, key_fn="to_string"), False, numbers=one.numbers)
            return Made(growing.add("to_stream", one.id), False, one.windowed, numbers=one.numbers)
        case "join":
            other = _other(growing, one, pool, table=True)
            id = tables.joined(growing, one.id, other.id) if other else ""
            return other and Made(id, True, one.windowed, unlike=one.unlike or other.unlike)
        case "group":
            if one.unlike:
                return None
            fn = random.choice(["value_as_key_and_value", {"name": "const_key", "arg": "all"}])
            group = growing.add("group_by", one.id, fn=fn)
            return _aggregated(growing, one, group, "", tables.kept(growing), subtractor="concat_minus")
        case "suppress":
            if one.versioned or one.unlike:
                return None
            bound = {"max_records": random.choice([1, 2]), "on_full": "emit_early"} if growing.chance(0.4) else {}
            return Made(
                growing.add("suppress", one.id, until="time_limit", time_ms=random.choice([0, 1, 5, 10]), **bound),
                True,
                one.windowed,
                numbers=one.numbers,
                unlike=True,
            )
    other = _other(growing, Made("", True), pool, table=True)
    if other is None or one.numbers or one.unlike:
        return None
    return Made(tables.foreign(growing, one.id, other.id), True, one.windowed)


PARTS: list[Callable[[Any, str], str]] = [mixed]
