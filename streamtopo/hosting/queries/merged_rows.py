"""Merges the rows of several tasks in one order, even if the tasks move in the meantime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Generic, Protocol, Self, TypeVar

from streamtopo.hosting.answers import NotOwner, Restoring
from streamtopo.hosting.queries.scanning import RowIterator, ScanBounds, StorePart
from streamtopo.hosting.queries.waiting import Retry

Item = TypeVar("Item")


class Scannable(Protocol):
    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator: ...


class MergedRows:
    """Opens all scans before it returns the first row.

    After a refusal, the next call continues after the last returned row, wherever the rows are then.
    """

    def __init__(self, source: Scannable, parts: Sequence[StorePart], bounds: ScanBounds) -> None:
        self._source = source
        self._parts = parts
        self._bounds = bounds
        self._last: tuple[bytes, int] | None = None
        """The key of the last row, and the number of its part."""
        self._rows: Iterator[tuple[bytes, int, bytes]] | None = self._scan()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        try:
            self._rows = self._rows or self._scan()
            key, number, row = next(self._rows)
        except (NotOwner, Restoring):
            self._rows = None
            raise
        self._last = key, number
        return key, row

    def _scan(self) -> Iterator[tuple[bytes, int, bytes]]:
        scans = [self._source.scan(part, self._remaining(number)) for number, part in enumerate(self._parts)]
        numbered = [_numbered(rows, number) for number, rows in enumerate(scans)]
        return merge(*numbered, key=lambda row: row[0], reverse=self._bounds.reverse)

    def _remaining(self, number: int) -> ScanBounds:
        """Return the bounds of the rows that remain. Rows with equal keys are in the order of their parts."""
        if self._last is None:
            return self._bounds
        key, last = self._last
        return self._bounds.after(key) if number <= last else self._bounds.starting_at(key)


def _numbered(rows: RowIterator, number: int) -> Iterator[tuple[bytes, int, bytes]]:
    return ((key, number, row) for key, row in rows)


class RetryingRows(Generic[Item]):
    """Waits for the remaining rows when a task moves in the middle of them."""

    def __init__(self, rows: Iterator[Item], retry: Retry) -> None:
        self._rows = rows
        self._retry = retry

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        try:
            return next(self._rows)
        except (NotOwner, Restoring):
            return self._retry.call(self._rows.__next__)
