"""Fetched records of a partition that wait to be read. They are kept as columns: this many messages would push each
other out of the processor's caches.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate, takewhile

from streamtopo.records import Batch, Columns, join_columns, join_offsets


class ReadAhead:
    def __init__(self) -> None:
        self._batches: deque[tuple[Batch, int]] = deque()
        """Each with the size of its values."""
        self.records = 0
        self.bytes = 0
        """Of the values."""

    def add(self, batch: Batch) -> None:
        size = _size(batch.columns)
        self._batches.append((batch, size))
        self.records += len(batch.offsets)
        self.bytes += size

    def take(self, limit: int, most_bytes: float) -> list[Batch]:
        """Take the first records, up to and including the one that reaches `most_bytes`."""
        taken: list[Batch] = []
        while self._batches and limit > 0 and most_bytes > 0:
            batch, size = self._batches.popleft()
            count = min(limit, _count(batch.columns, most_bytes) if size >= most_bytes else len(batch.offsets))
            if count < len(batch.offsets):
                rest, batch = _slice(batch, slice(count, None)), _slice(batch, slice(count))
                whole, size = size, _size(batch.columns)
                self._batches.appendleft((rest, whole - size))
            taken.append(batch)
            self.records -= count
            self.bytes -= size
            limit -= count
            most_bytes -= size
        return taken


def together(batches: list[Batch], next_offset: int) -> Batch:
    """One batch of consecutive batches of a partition."""
    if len(batches) == 1:
        return batches[0]._replace(next_offset=next_offset)
    columns = join_columns([batch.columns for batch in batches])
    return Batch(batches[0].source, columns, join_offsets([batch.offsets for batch in batches]), next_offset)


def _slice(batch: Batch, rows: slice) -> Batch:
    columns = Columns(*(column and column[rows] for column in batch.columns))  # type: ignore[arg-type]
    offsets = batch.offsets[rows]
    return batch._replace(columns=columns, offsets=offsets, next_offset=offsets[-1] + 1)


def _size(columns: Columns) -> int:
    return sum(map(len, filter(None, columns.values)))


def _count(columns: Columns, most_bytes: float) -> int:
    """The number of records up to and including the one that reaches `most_bytes`."""
    sizes = accumulate(len(value or b"") for value in columns.values)
    return 1 + sum(1 for _ in takewhile(lambda size: size < most_bytes, sizes))
