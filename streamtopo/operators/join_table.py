"""A stream joined with a table: each record with the row of its key, or of a key made from it, at that moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.operators.aggregate import Dropped
from streamtopo.operators.lookup import Lookup
from streamtopo.records import Chunk, Step, each_row, has_null
from streamtopo.stores.state import Row


def join_table(
    lookup: Lookup, joiner: Callable[..., Any], dropped: Dropped, *, left: bool, with_key: bool = False
) -> Step:
    """With `left` also records without a row, joined with None. Records without a value are dropped in any case."""

    def step(chunk: Chunk) -> Chunk:
        chunk, rows = lookup.split(chunk)
        dropped("null key or value", _unusable(chunk, chunk.keys, left=left))
        return _joined(chunk, rows, joiner, left=left, with_key=with_key)

    return step


def join_mapped(
    lookup: Lookup,
    key: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    dropped: Dropped,
    *,
    left: bool,
    with_key: bool = False,
) -> Step:
    """The row is that of `key(key, value)`, which is not asked about records without a value."""

    def step(chunk: Chunk) -> Chunk:
        if has_null(chunk.values):
            mask = [value is not None for value in chunk.values]
            dropped("null key or value", mask.count(False))
            chunk = chunk.select(mask)
        keys = each_row(key, chunk.keys, chunk.values)
        dropped("null key or value", _unusable(chunk, keys, left=left))
        chunk, rows = lookup.split(chunk, lambda _: keys)
        return _joined(chunk, rows, joiner, left=left, with_key=with_key)

    return step


def _joined(chunk: Chunk, rows: list[Row | None], joiner: Callable[..., Any], *, left: bool, with_key: bool) -> Chunk:
    if has_null(chunk.values) or not (left or all(rows)):
        mask = [value is not None and (left or row is not None) for value, row in zip(chunk.values, rows, strict=True)]
        chunk, rows = chunk.select(mask), [row for row, joined in zip(rows, mask, strict=True) if joined]
    columns = [chunk.values, [row and row[0] for row in rows]]
    return chunk.with_values(each_row(joiner, *([chunk.keys, *columns] if with_key else columns)))


def _unusable(chunk: Chunk, keys: list[Any], *, left: bool) -> int:
    if not has_null(chunk.values) and (left or not has_null(keys)):
        return 0
    return sum(value is None or (key is None and not left) for key, value in zip(keys, chunk.values, strict=True))
