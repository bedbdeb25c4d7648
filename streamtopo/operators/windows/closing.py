"""Rows that are forwarded once, when their window closes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import repeat
from typing import Any

from streamtopo.records import NOTHING, Chunk
from streamtopo.stores.rows.state import Row, State
from streamtopo.topology.operator import Bindings
from streamtopo.windows import WindowsByStart


class ForwardedUntil:
    """The end up to which closed windows were forwarded.

    Stream time would not be enough: if the grace period or the gap is made longer, closed windows are open again, but
    they must not be forwarded twice.
    """

    def __init__(self, bindings: Bindings, store: str, after_end: int) -> None:
        """`after_end`: how many milliseconds after its end a window closes."""
        self._after_end = after_end
        self._end = bindings.register(forwarded_until(store))
        older = bindings.register(f"{store}/emitted")
        """Older versions stored stream time instead."""
        if self._end.value < 0 <= older.value:
            self._end.value = max(-1, older.value - after_end)

    @property
    def end(self) -> int:
        return self._end.value

    def reach(self, time: int) -> None:
        """Stream time has reached `time`."""
        self._end.value = max(self._end.value, time - self._after_end)


def forwarded_until(store: str) -> str:
    """The name of the register."""
    return f"{store}/closed"


class Closing:
    """For windows of one size. Rows of closed windows do not change, so they can wait for the end of a chunk."""

    def __init__(self, windows: WindowsByStart, state: State, bindings: Bindings) -> None:
        self._state = state
        self._windows = windows
        self._forwarded_until = ForwardedUntil(bindings, state.spec.name, windows.grace)

    def closed(self, chunk: Chunk, times: list[int]) -> Chunk:
        """The rows of the windows that this chunk closes, each as an update by the record that closes the window."""
        length = self._windows.length
        earliest = self._forwarded_until.end - length + 1
        self._forwarded_until.reach(times[-1])
        past = self._forwarded_until.end - length + 1
        if not self._windows.may_start(earliest, past):
            return NOTHING
        rows = self._state.ordered.by_time(earliest, past)
        keys: list[Any] = [key for key, _ in rows]
        if not self._state.spec.key.exact:
            keys = self._state.spec.key.decode_column(keys)
        closes_after = length + self._windows.grace
        places = [bisect_left(times, key[1] + closes_after) for key in keys]
        return final_rows(chunk, places, keys, [row for _, row in rows])


def final_rows(chunk: Chunk, places: list[int], keys: list[Any], rows: list[Row]) -> Chunk:
    """Updates that come once for each key, so that there is never an old value."""
    updates = chunk.emit(places, keys, [value for value, _ in rows])
    return replace(updates, timestamps=[time for _, time in rows], old=list(repeat(None, len(rows))))


def each_update_counts(state: State, *, on_close: bool) -> bool:
    """Whether each update of a row is needed, or only the last one, as for a window that is sent when it closes."""
    return state.forwarding.watched or (not on_close and state.forwarding.each_update)
