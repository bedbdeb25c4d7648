"""Steps that keep one row per key: count, reduce, aggregate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from streamtopo.errors import faults
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.adders import Add, Adders
from streamtopo.records import Chunk, has_null, private, without
from streamtopo.row_calls import may_leave_out, noted_alone
from streamtopo.stores.rows.state import Row, State

Dropped = Callable[[str, int], None]
"""Counts rows that were dropped, by reason."""


def count(state: State, dropped: Dropped, *, raw: bool) -> Keeping:
    """With `raw`, keys come as bytes, equal keys with equal bytes. Only the necessary ones are decoded."""

    def step(chunk: Chunk) -> Chunk:
        chunk = without_nulls(chunk, dropped)
        if not state.forwarding.each_update:
            return _count_together(state, chunk.keys if raw else state.index(chunk.keys), chunk, raw=raw)
        if raw:
            chunk = chunk.with_keys(state.spec.key.decode_column(chunk.keys))
        return _count_each(state, state.index(chunk.keys), chunk)

    return Keeping(step, state)


def _count_each(state: State, index: list[Hashable], chunk: Chunk) -> Chunk:
    rows = state.load(index)
    new: list[Row] = []
    for key, time in zip(index, chunk.timestamps, strict=True):
        row = rows[key]
        if row is not None:
            total, before = row
            rows[key] = row = (total + 1, time if time > before else before)
        else:
            rows[key] = row = (1, time)
        new.append(row)
    return state.changed(index, chunk.with_rows([total for total, _ in new], [time for _, time in new]))


def _count_together(state: State, keys: list[Any], chunk: Chunk, *, raw: bool) -> Chunk:
    """Count all records of a key at once, if only the last count is seen."""
    seen, last = Counter(keys), state.changes.numbers(keys)
    newest = latest(keys, chunk.timestamps, [number - state.changes.count for number in last.values()])
    index: list[Any] = state.spec.key.decode_column([*seen]) if raw else [*seen]
    rows = state.load(index)
    for key, more, time in zip(index, seen.values(), newest, strict=True):
        row = rows[key]
        rows[key] = (more, time) if row is None else (row[0] + more, time if time > row[1] else row[1])
    return state.changed(keys, chunk, dict(zip(index, last.values(), strict=True)) if raw else last)


def latest(keys: list[Hashable], times: list[int], last: Iterable[int]) -> list[int]:
    """The largest time of each key, in the order of first records. `last` has the places of the last records."""
    if times == sorted(times):
        return [times[place] for place in last]
    newest = dict(zip(keys, times, strict=True))
    for key, time in zip(keys, times, strict=True):
        if time > newest[key]:
            newest[key] = time
    return list(newest.values())


def reduce(state: State, reducer: Callable[[Any, Any], Any], dropped: Dropped) -> Keeping:
    def add(key: Any, value: Any, row: Row | None) -> Any:
        return value if row is None else reducer(row[0], value)

    return _fold(state, Adders((add,)), dropped)


def aggregate(state: State, init: Callable[[], Any], adders: Sequence[Add], dropped: Dropped) -> Keeping:
    """There is one adder for each parent."""

    def from_init(adder: Add) -> Add:
        return lambda key, value, row: adder(key, value, private(init()) if row is None else row[0])

    return _fold(state, Adders(adders, from_init), dropped)


def _fold(state: State, adders: Adders, dropped: Dropped) -> Keeping:
    """None as the new row deletes the row. The adder may change a row in place and return it, or fail after that."""

    def step(chunk: Chunk) -> Chunk:
        chunk = without_nulls(chunk, dropped)
        index = state.index(chunk.keys)
        rows = state.load(index)
        snapshot = state.snapshot
        copies = may_leave_out() and state.spec.value.mutable
        values: list[Any] = []
        timestamps: list[int] = []
        failed: list[int] = []
        before: Row | None = None
        columns = zip(index, chunk.keys, chunk.values, chunk.timestamps, adders.of(chunk.sides), strict=False)
        for kept, key, value, time, add in columns:
            row = rows[kept]
            if row is not None and row[1] > time:
                time = row[1]
            if copies:
                before = private(row)
            try:
                new = add(key, value, row)
            except faults() as error:
                rows[kept] = before if copies else row
                failed.append(len(values) + len(failed))
                if not noted_alone(chunk, failed[-1], error):
                    raise
                continue
            rows[kept] = None if new is None else (new, time)
            values.append(snapshot(new))
            timestamps.append(time)
        if failed:
            chunk, index = chunk.without(failed), without(index, failed)
        return state.changed(index, chunk.with_rows(values, timestamps))

    return Keeping(step, state, leaves_out=True)


def without_nulls(chunk: Chunk, dropped: Dropped) -> Chunk:
    """The records that can be aggregated: those with a key and a value."""
    if not has_null(chunk.keys) and not has_null(chunk.values):
        return chunk
    mask = [key is not None and value is not None for key, value in zip(chunk.keys, chunk.values, strict=True)]
    dropped("null key or value", mask.count(False))
    return chunk.select(mask)
