"""A stream joined with a table: each record with the row of its key at that moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.operators.aggregate import Dropped
from streamtopo.operators.lookup import Lookup
from streamtopo.records import Chunk, Step, each_row


def join_table(
    lookup: Lookup, joiner: Callable[..., Any], dropped: Dropped, *, left: bool, with_key: bool = False
) -> Step:
    """With `left` also records without a row, joined with None. Records without a value are dropped in any case."""

    def step(chunk: Chunk) -> Chunk:
        chunk, rows = lookup.split(chunk)
        mask = [value is not None and (left or row is not None) for value, row in zip(chunk.values, rows, strict=True)]
        dropped("null key or value", _unusable(chunk, left=left))
        if not all(mask):
            chunk, rows = chunk.select(mask), [row for row, joined in zip(rows, mask, strict=True) if joined]
        columns = [chunk.values, [row and row[0] for row in rows]]
        return chunk.with_values(each_row(joiner, *([chunk.keys, *columns] if with_key else columns)))

    return step


def _unusable(chunk: Chunk, *, left: bool) -> int:
    if None not in chunk.values and (left or None not in chunk.keys):
        return 0
    return sum(value is None or (key is None and not left) for key, value in zip(chunk.keys, chunk.values, strict=True))
