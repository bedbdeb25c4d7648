"""Rows of windows handed on once, when the window closes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import repeat
from typing import Any

from streamtopo.records import NOTHING, Chunk
from streamtopo.stores.state import Row, State
from streamtopo.topology import Bindings
from streamtopo.windows import SlidingWindows, TimeWindows


class HandedOn:
    """Up to which end windows were handed on: what an edit of grace or gap does not change, unlike stream time.

    A window is handed on once, also if it is open again because windows close later now.
    """

    def __init__(self, bindings: Bindings, store: str, after_end: int) -> None:
        """Windows close so long after their end."""
        self._after_end = after_end
        self._end = bindings.clock(f"{store}/closed")
        older = bindings.clock(f"{store}/emitted")
        """What programs of before noted: stream time."""
        if self._end.time < 0 <= older.time:
            self._end.time = max(-1, older.time - after_end)

    @property
    def end(self) -> int:
        return self._end.time

    def reach(self, time: int) -> None:
        """Stream time is this."""
        self._end.time = max(self._end.time, time - self._after_end)


class Closing:
    """For windows whose start says when they close: nothing changes a row after that, so it can wait for the chunk."""

    def __init__(self, windows: TimeWindows | SlidingWindows, state: State, bindings: Bindings) -> None:
        self._state = state
        self._handed_on = HandedOn(bindings, state.spec.name, windows.grace)
        if isinstance(windows, TimeWindows):
            self._size, self._advance = windows.size, windows.advance
        else:  # its end is in a sliding window
            self._size, self._advance = windows.difference + 1, 1
        self._lasting = self._size + windows.grace

    def closed(self, chunk: Chunk, times: list[int]) -> Chunk:
        """Rows of the windows that the chunk closed, each made from the row that closed it."""
        earliest = self._handed_on.end - self._size + 1
        self._handed_on.reach(times[-1])
        past = self._handed_on.end - self._size + 1
        if -(-earliest // self._advance) * self._advance >= past:
            return NOTHING  # no window starts in between
        rows = self._state.by_time(earliest, past)
        keys: list[Any] = [key for key, _ in rows]
        if not self._state.spec.key.exact:
            keys = self._state.spec.key.decode_column(keys)
        places = [bisect_left(times, key[1] + self._lasting) for key in keys]
        return final_rows(chunk, places, keys, [row for _, row in rows])


def final_rows(chunk: Chunk, places: list[int], keys: list[Any], rows: list[Row]) -> Chunk:
    """Updates of a table that come once: where old values are asked for, there were none."""
    updates = chunk.emit(places, keys, [value for value, _ in rows])
    return replace(updates, timestamps=[time for _, time in rows], old=list(repeat(None, len(rows))))
