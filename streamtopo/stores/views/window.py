"""A window store as processors and tests see it: rows by key and window start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic

from streamtopo.hints import hinted
from streamtopo.records.type_parameters import TK, T
from streamtopo.stores.rows.layout import segment_start
from streamtopo.stores.rows.state import Row
from streamtopo.stores.views.key_value import ValueAndTimestamp
from streamtopo.stores.views.timed import TimedView, WindowedPair
from streamtopo.windows import FOREVER, Windowed

Started = tuple[int, Any]
"""A window's start, and its value."""
_NUMBER = 4
"""Bytes at the end of a key that distinguish duplicates."""


@hinted
class WindowStore(TimedView, Generic[TK, T]):
    """Time limits are starts of windows, and are inclusive. Rows older than the retention are not found."""

    def put(self, key: TK, value: T | None, window_start: int, timestamp: int | None = None) -> None:
        """Set the value of a window; None deletes. The default timestamp is that of the current record.

        None does not delete duplicates.
        """
        window = self._window(key, window_start)
        if not self._state.spec.duplicates:
            self._put(window, window_start, value, timestamp)
        elif value is not None:
            self._put(window, window_start, value, timestamp, after=self._index(window))

    def fetch(self, key: TK, time: int) -> T | None:
        """The value of the window that starts at this time."""
        row = self._row(self._window(key, time), time)
        return row and row[0]

    def fetch_with_timestamp(self, key: TK, time: int) -> ValueAndTimestamp[T] | None:
        """As `fetch`, with the times of the rows."""
        row = self._row(self._window(key, time), time)
        return row and ValueAndTimestamp(*row)

    def fetch_range(self, key: TK, start: int, stop: int) -> Iterator[tuple[int, T]]:
        """The starts and values of a key's windows, oldest first."""
        return _started(self._of_key(key, start, stop))

    def backward_fetch_range(self, key: TK, start: int, stop: int) -> Iterator[tuple[int, T]]:
        """As `fetch_range`, with the last window first."""
        return _started(self._of_key(key, start, stop, reverse=True))

    def fetch_keys_range(
        self, first: TK | None, last: TK | None, start: int, stop: int
    ) -> Iterator[WindowedPair[TK, T]]:
        """The windows of all keys from `first` to `last`, both inclusive; None: no limit."""
        return _pairs(self._between(self._bound(first), self._bound(last), start, stop))

    def backward_fetch_keys_range(
        self, first: TK | None, last: TK | None, start: int, stop: int
    ) -> Iterator[WindowedPair[TK, T]]:
        """As `fetch_keys_range`, with the last row first."""
        return _pairs(self._between(self._bound(first), self._bound(last), start, stop, reverse=True))

    def fetch_all(self, start: int, stop: int) -> Iterator[WindowedPair[TK, T]]:
        """The rows of all keys, of windows that start between these times, both inclusive."""
        return _pairs(self._between(None, None, start, stop))

    def backward_fetch_all(self, start: int, stop: int) -> Iterator[WindowedPair[TK, T]]:
        """As `fetch_all`, with the last row first."""
        return _pairs(self._between(None, None, start, stop, reverse=True))

    def all(self) -> Iterator[WindowedPair[TK, T]]:
        """All rows."""
        return self.fetch_all(0, FOREVER)

    def backward_all(self) -> Iterator[WindowedPair[TK, T]]:
        """All rows, with the last one first."""
        return self.backward_fetch_all(0, FOREVER)

    def _between(
        self, first: bytes | None, last: bytes | None, start: int, stop: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed, Row]]:
        """Stores in memory, and those that find rows by time, order windows by time, as in Kafka Streams."""
        rows = super()._between(first, last, start, stop, reverse=reverse)
        if not (self._state.spec.in_memory or self._state.spec.by_time):
            return rows
        return iter(sorted(rows, key=lambda row: row[0].start, reverse=reverse))

    def _index(self, window: Windowed) -> Any:
        """For duplicates the last one; a row that is put comes after it."""
        index = super()._index(window)
        if not self._state.spec.duplicates:
            return index
        place = segment_start(window.start // self._state.spec.segment) + index[:-_NUMBER]
        found = self._state.scan(place, place + b"\xff" * (_NUMBER + 1), reverse=True)
        return next((key for key, _ in found if len(key) == len(index)), index)

    def _window(self, key: Any, start: int) -> Windowed:
        """With the end that the store's serde decodes, so that both are the same key."""
        self._check(key)
        return Windowed(*self._serde.decode(self._serde.encode(Windowed(key, start, 0))))


def _started(rows: Iterator[tuple[Windowed, Row]]) -> Iterator[Started]:
    return ((window.start, row[0]) for window, row in rows)


def _pairs(rows: Iterator[tuple[Windowed, Row]]) -> Iterator[WindowedPair]:
    return ((window, row[0]) for window, row in rows)
