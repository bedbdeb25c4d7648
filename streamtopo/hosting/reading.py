"""Rows of several places, one after the other in one order, however the tasks that have them move meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Generic, Protocol, Self, TypeVar

from streamtopo.hosting.answers import NotOwner, Restoring
from streamtopo.hosting.spans import Place, Rows, Span
from streamtopo.hosting.waiting import Patience

Row = TypeVar("Row")


class Scanned(Protocol):
    def scan(self, place: Place, span: Span) -> Rows: ...


class Reading:
    """All places are found before the first row is given out.

    After a refusal the next call goes on after the last row that was given out, wherever the rows are by then.
    """

    def __init__(self, source: Scanned, places: Sequence[Place], span: Span) -> None:
        self._source = source
        self._places = places
        self._span = span
        self._last: tuple[bytes, int] | None = None
        """The key of the last row, and which of the places had it."""
        self._rows: Iterator[tuple[bytes, int, bytes]] | None = self._opened()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        try:
            self._rows = self._rows or self._opened()
            key, number, row = next(self._rows)
        except (NotOwner, Restoring):
            self._rows = None
            raise
        self._last = key, number
        return key, row

    def _opened(self) -> Iterator[tuple[bytes, int, bytes]]:
        scans = [self._source.scan(place, self._rest(number)) for number, place in enumerate(self._places)]
        parts = [_numbered(rows, number) for number, rows in enumerate(scans)]
        return merge(*parts, key=lambda row: row[0], reverse=self._span.reverse)

    def _rest(self, number: int) -> Span:
        """Places may have equal keys, whose rows come in the order of the places."""
        if self._last is None:
            return self._span
        key, last = self._last
        return self._span.after(key) if number <= last else self._span.from_(key)


def _numbered(rows: Rows, number: int) -> Iterator[tuple[bytes, int, bytes]]:
    return ((key, number, row) for key, row in rows)


class Patient(Generic[Row]):
    """Waits for the rest of the rows when a task goes away in the middle of them."""

    def __init__(self, rows: Iterator[Row], patience: Patience) -> None:
        self._rows = rows
        self._patience = patience

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        try:
            return next(self._rows)
        except (NotOwner, Restoring):
            return self._patience.until(self._rows.__next__)
