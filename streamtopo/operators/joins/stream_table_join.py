"""A stream joined with a table: each record with the row of its key, or of a key made from it, at that moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamtopo.operators.joins.lookup import Lookup
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.records import Chunk, ChunkFunction, PlacedPuts, has_null
from streamtopo.row_calls import results_of
from streamtopo.steps import WatchingFunction, WatchingStep
from streamtopo.stores.rows.state import Row


def join_table(
    lookup: Lookup, joiner: Callable[..., Any], dropped: Dropped, *, left: bool, with_key: bool = False
) -> WatchingStep:
    """With `left` also records without a row, joined with None. Records without a value are dropped in any case."""

    def step(chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        rows = lookup.find(chunk, puts)
        dropped("null key or value", _unusable(chunk, chunk.keys, left=left))
        return _joined(chunk, rows, joiner, left=left, with_key=with_key)

    return WatchingFunction(step)


def join_mapped(
    lookup: Lookup,
    key: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    dropped: Dropped,
    *,
    left: bool,
    with_key: bool = False,
) -> ChunkFunction:
    """The row is that of `key(key, value)`, which is not called for records without a value."""

    def step(chunk: Chunk) -> Chunk:
        if has_null(chunk.values):
            mask = [value is not None for value in chunk.values]
            dropped("null key or value", mask.count(False))
            chunk = chunk.select(mask)
        chunk, keys = results_of(key, chunk, chunk.keys, chunk.values)
        dropped("null key or value", _unusable(chunk, keys, left=left))
        return _joined(chunk, lookup.find(chunk, keys=keys), joiner, left=left, with_key=with_key)

    return step


def _joined(chunk: Chunk, rows: list[Row | None], joiner: Callable[..., Any], *, left: bool, with_key: bool) -> Chunk:
    if has_null(chunk.values) or not (left or all(rows)):
        mask = [value is not None and (left or row is not None) for value, row in zip(chunk.values, rows, strict=True)]
        chunk, rows = chunk.select(mask), [row for row, joined in zip(rows, mask, strict=True) if joined]
    columns = [chunk.values, [row and row[0] for row in rows]]
    chunk, values = results_of(joiner, chunk, *([chunk.keys, *columns] if with_key else columns))
    return chunk.with_values(values)


def _unusable(chunk: Chunk, keys: list[Any], *, left: bool) -> int:
    if not has_null(chunk.values) and (left or not has_null(keys)):
        return 0
    return sum(value is None or (key is None and not left) for key, value in zip(keys, chunk.values, strict=True))
