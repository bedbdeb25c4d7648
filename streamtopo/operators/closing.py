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


class Closing:
    """For windows whose start says when they close: nothing changes a row after that, so it can wait for the chunk."""

    def __init__(self, windows: TimeWindows | SlidingWindows, state: State, bindings: Bindings) -> None:
        self._state = state
        self._emitted = bindings.clock(f"{state.spec.name}/emitted")
        """The stream time up to which rows were handed on."""
        if isinstance(windows, TimeWindows):
            self._lasting, self._advance = windows.size + windows.grace, windows.advance
        else:  # its end is in a sliding window
            self._lasting, self._advance = windows.difference + 1 + windows.grace, 1

    def closed(self, chunk: Chunk, times: list[int]) -> Chunk:
        """Rows of the windows that the chunk closed, each made from the row that closed it."""
        before, self._emitted.time = self._emitted.time, max(self._emitted.time, times[-1])
        earliest, past = before - self._lasting + 1, times[-1] - self._lasting + 1
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
