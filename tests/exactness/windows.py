"""Random steps with windows: aggregations of each kind in place, cogrouped streams, and suppressed tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from streamtopo import KStream, KTable, Windowed, Windows, until_time_limit, until_window_closes
from tests.in_place import weak

Draw = Callable[[Any], Any]


def windowed(stream: KStream, draw: Draw, name: str) -> KStream:
    grouped = stream.group_by_key()
    emit = draw(st.sampled_from(["on_update", "on_close"]))
    graces = st.sampled_from([0, 30])
    match draw(st.sampled_from(["tumbling", "hopping", "sliding", "session", "unlimited"])):
        case "tumbling":
            return _aggregated(grouped.windowed_by(Windows.tumbling(20, grace=draw(graces)), emit=emit), draw, name)
        case "hopping":
            hopping = Windows.hopping(20, every=10, grace=draw(graces))
            return _aggregated(grouped.windowed_by(hopping, emit=emit), draw, name)
        case "sliding":
            return _aggregated(grouped.windowed_by(Windows.sliding(20, grace=draw(graces)), emit=emit), draw, name)
        case "session":
            session = Windows.session(10, grace=draw(graces))
            return _aggregated(grouped.windowed_by(session, emit=emit), draw, name, _merge)
        case _:
            return _aggregated(grouped.windowed_by(Windows.unlimited(20)), draw, name)


def _aggregated(windowed: Any, draw: Draw, name: str, *merger: Any) -> KStream:
    table: KTable
    match draw(st.sampled_from(["count", "reduce", "aggregate"])):
        case "count":
            table = windowed.count(name=name)
            return _unwindowed(table, lambda total: [total])
        case "reduce":
            table = windowed.reduce(lambda row, value: row.extend(value[:1]) or row, name=name)
        case _:
            table = windowed.aggregate(list, _append, *merger, value=list, name=name)
    if draw(st.booleans()):
        grouped_again(table, _by_inner_key, name)
    if draw(st.booleans()) and "unlimited" not in str(windowed.windows).lower():
        table = table.suppress(until_window_closes())
    return _unwindowed(table, lambda value: value)


def cogrouped(stream: KStream, other: KStream, draw: Draw, name: str) -> KStream:
    together = stream.group_by_key().cogroup(_append).cogroup(other.group_by_key(), _prepend)
    match draw(st.sampled_from(["plain", "tumbling", "sliding", "session"])):
        case "plain":
            return _filled(together.aggregate(list, value=list, name=name))
        case "tumbling":
            table = together.windowed_by(Windows.tumbling(20, grace=30)).aggregate(list, value=list, name=name)
        case "sliding":
            table = together.windowed_by(Windows.sliding(20, grace=30)).aggregate(list, value=list, name=name)
        case _:
            table = together.windowed_by(Windows.session(10, grace=30)).aggregate(list, _merge, value=list, name=name)
    if draw(st.booleans()):
        grouped_again(table, _by_inner_key, name)
    return _unwindowed(table, lambda value: value)


def held_back(stream: KStream, draw: Draw, name: str) -> KStream:
    limit = until_time_limit(draw(st.sampled_from([0, 15])), max_records=draw(st.sampled_from([None, 2])))
    return _filled(stream.to_table(store=name).suppress(limit))


def grouped_again(table: KTable, mapper: Callable[[Any, Any], Any], name: str) -> None:
    """Aggregate new and old values in groups."""
    history = table.group_by(mapper, key=str, value=list).aggregate(list, _added, _removed)
    history.to_stream().to(f"grouped-{name}")


def _by_inner_key(window: Windowed, value: Any) -> tuple[Any, list[Any]]:
    return window.key, [window.start, value]


@weak
def _added(_: str, value: list[Any], row: list[Any]) -> list[Any]:
    row.append(["added", *value])
    return row[-4:]


@weak
def _removed(_: str, value: list[Any], row: list[Any]) -> list[Any] | None:
    row.append(["removed", *value])
    return row[-4:] if len(row) != 2 else None


def _filled(table: KTable) -> KStream:
    """Replace deletions by a value: the following steps expect one."""
    return table.to_stream().map_values(lambda value: [-1] if value is None else value, value=list)


@weak
def _append(_: Any, value: list[Any], row: list[Any]) -> list[Any] | None:
    row.append(value[0])
    return row if len(row) % 5 else None


@weak
def _prepend(_: Any, value: list[Any], row: list[Any]) -> list[Any]:
    row.insert(0, value[0])
    value.clear()
    return row


@weak
def _merge(_: Any, one: list[Any], other: list[Any]) -> list[Any]:
    other.extend(one)
    return other


def _unwindowed(table: KTable, function: Callable[[Any], Any]) -> KStream:
    """Mark the keys as unchanged, so that what follows stays in the same task."""
    stream = table.to_stream().map(
        lambda window, value: (window.key, [window.start, window.end, function(value)]), key=str, value=list
    )
    return replace(stream, key_changed=False)
