"""Windows of every kind, cogrouped streams, and suppressed tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ADDERS = ["concat_plus", "concat", {"name": "append_null_if_len_gt", "arg": 4}]
_KEPT = 100_000
"""Retention for rows that are emitted when windows close: with less, Kafka Streams loses some of them."""


def windowed(growing: Any, stream: str) -> str:
    random = growing.random
    window = random_window(growing)
    closing = window["type"] != "unlimited" and growing.chance(0.4)
    grouped = growing.add("group_by_key", stream)
    emit = {"emit": "on_window_close"} if closing else {}
    before = growing.add("windowed_by", grouped, window=window, **emit)
    retention = (
        {"retention_ms": _KEPT, "store": "kept"}
        if closing or (window["type"] != "unlimited" and growing.chance(0.2))
        else {}
    )
    match random.choice(["count", "reduce", "aggregate"]):
        case "count":
            table = growing.add("count", before, **retention)
        case "reduce":
            table = growing.add("reduce", before, fn="concat_plus", **retention)
        case _:
            merger = {"merger": "concat"} if window["type"] == "session" else {}
            table = growing.add("aggregate", before, init="", fn=random.choice(_ADDERS), **merger, **retention)
    growing.subject = f"{window['type']}{' on close' if closing else ''}"
    if window["type"] not in ("unlimited", "sliding") and growing.chance(0.3):
        table = growing.add("suppress", table, until="window_closes")
        growing.subject += " suppressed"
    return out(growing, table)


def random_window(growing: Any) -> dict[str, Any]:
    random = growing.random
    kind = random.choice(["tumbling", "hopping", "sliding", "sliding", "session", "session", "unlimited"])
    grace = random.choice([0, 0, 3, 10, 50])
    if kind == "sliding":
        growing.order = "per_input_set"
    return {
        "tumbling": {"type": kind, "size_ms": random.choice([1, 5, 10]), "grace_ms": grace},
        "hopping": {"type": kind, "size_ms": 10, "advance_ms": random.choice([1, 3, 5, 10]), "grace_ms": grace},
        "sliding": {"type": kind, "time_difference_ms": random.choice([1, 5, 10]), "grace_ms": grace},
        "session": {"type": kind, "gap_ms": random.choice([1, 5, 10]), "grace_ms": grace},
        "unlimited": {"type": kind, "start_ms": random.choice([0, 10])},
    }[kind]


def cogrouped(growing: Any, stream: str) -> str:
    """Without late records: each stream has its own stream time, and in Kafka Streams the store has a third one."""
    growing.subject = "cogroup"
    other = growing.source()
    groups = [growing.add("group_by_key", one) for one in (stream, other)]
    together = growing.add("cogroup", groups[0], fn="concat_plus")
    together = growing.add("cogroup", together, grouped=groups[1], fn="concat_minus")
    merger = {}
    if growing.chance(0.7):
        window = random_window(growing)
        growing.subject += f" {window['type']}"
        if "grace_ms" in window:
            window["grace_ms"] = _KEPT
        merger = {"merger": "concat"} if window["type"] == "session" else {}
        together = growing.add("windowed_by", together, window=window)
    return out(growing, growing.add("aggregate", together, init="", **merger))


def held_back(growing: Any, stream: str) -> str:
    random = growing.random
    growing.subject = "suppress"
    if growing.chance(0.5):
        table = growing.add("to_table", stream)
    else:
        table = growing.add("count", growing.add("group_by_key", stream))
    bound = {"max_records": random.choice([0, 1, 2]), "on_full": "emit_early"} if growing.chance(0.4) else {}
    limit = {"until": "time_limit", "time_ms": random.choice([0, 1, 5, 10, 30]), **bound}
    return out(growing, growing.add("suppress", table, **limit))


def out(growing: Any, table: str) -> str:
    stream: str = growing.add("to_stream", table)
    growing.add("to", stream, topic="output")
    return stream


PARTS: list[Callable[[Any, str], str]] = [windowed, windowed, windowed, cogrouped, held_back]
