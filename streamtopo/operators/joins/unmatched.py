"""Rows of a left or outer join without a match so far. They are joined with None when their window closes."""

from __future__ import annotations

import struct
from bisect import insort
from collections.abc import Iterator
from itertools import islice
from types import GenericAlias
from typing import Any, Literal, NamedTuple

from streamtopo.serdes import Serde
from streamtopo.stores.rows.state import State
from streamtopo.topology.clocks import Register

How = Literal["inner", "left", "outer"]
LEFT, RIGHT = 0, 1
_LISTED = 100_000
"""The maximum number of places in memory."""
_LENGTH = struct.Struct(">I")
_SIDES = {LEFT: b"\1", RIGHT: b"\0"}
"""In a key. For equal times, rows of the right side come first."""


class JoinWindow(NamedTuple):
    """A right row is in the window of a left row if left - before <= right <= left + after, in milliseconds."""

    before: int
    after: int
    grace: int = 0

    @property
    def retention(self) -> int:
        return self.before + self.after + self.grace


class Alone(NamedTuple):
    """A row whose window is closed."""

    side: int
    key: bytes
    time: int
    value: Any


class Pending:
    """Stored by time, side and key. Rows with the same time, side and key are stored, and removed, together."""

    def __init__(self, state: State, window: JoinWindow, lowest: Register) -> None:
        self._state = state
        self._ahead = window.after + window.grace, window.before + window.grace
        self._lowest = lowest
        """No row is due before the window of this time closes. -1 if no row is pending."""
        self._places: list[bytes] | None = None
        """The places where rows are or were, in order from `_first` on. None: unknown, as there are too many."""
        self._first = 0
        self._loaded = False

    def load(self, places: list[bytes]) -> None:
        """Load the rows of places where rows may be added soon and, at first, the places of all rows."""
        self._state.look(places)
        if not self._loaded:
            self._loaded = True
            found = [place for place, _ in islice(self._state.scan(b"", None), _LISTED)]
            self._places = found if len(found) < _LISTED else None

    def add(self, place: bytes, side: int, time: int, value: Any) -> None:
        row = self._state.row(place)
        values = [*row[0][1], value] if row is not None else [value]
        self._state.put(place, ((side, values), time), time)
        if not 0 <= self._lowest.value <= time:
            self._lowest.value = time
        if self._places is not None:
            insort(self._places, place, lo=self._first)
            if len(self._places) > _LISTED:
                self._places = None

    def remove(self, place: bytes, time: int) -> None:
        """Remove a row that has a match now."""
        if self._state.row(place) is not None:
            self._state.put(place, None, time)

    def closed(self, asking: int, now: int) -> list[Alone]:
        """Remove and return the rows whose window is closed. A record of the side `asking` has this time.

        As in Kafka Streams, the last row that is looked at counts as the earliest that can be due next. So rows may
        stay longer than necessary, but each is looked at about twice, however many are pending.
        """
        if self._lowest.value < 0 or self._lowest.value + self._ahead[asking] >= now:
            return []
        found: list[Alone] = []
        waiting: list[bytes] = []
        still_open = set[int]()
        walked = 0
        self._lowest.value = -1
        for number, place, (side, values) in self._walk():
            time = self._lowest.value = int.from_bytes(place[:8])
            if len(still_open) == 2:
                walked = number
                break
            if time + self._ahead[side] >= now:
                still_open.add(side)
                waiting.append(place)
                if len(still_open) == 2 and len(values) > 1:  # the next row has the same place
                    walked = number + 1
                    break
            else:
                found += [Alone(side, place[9:], time, value) for value in values]
                self._state.row(place)
                self._state.put(place, None, now)
        else:
            walked = self._end()
        self._lowest.value = min(self._lowest.value, now)  # rows may be ahead of a clock that is held back
        self._forget(walked, waiting)
        return found

    def _walk(self) -> Iterator[tuple[int, bytes, tuple[int, list[Any]]]]:
        """The rows in order, each with its index in the list."""
        if self._places is None:
            yield from ((0, place, row[0]) for place, row in self._state.scan(b"", None))
            return
        before = b""
        for number in range(self._first, len(self._places)):
            place = self._places[number]
            row = None if place == before else self._state.row(place)
            before = place
            if row is not None:
                yield number, place, row[0]

    def _end(self) -> int:
        """After the last row: if the places were not listed, they are from now on."""
        if self._places is None:
            self._places, self._first = [], 0
        return len(self._places)

    def _forget(self, walked: int, waiting: list[bytes]) -> None:
        """Of the rows that were looked at, only these are left."""
        if self._places is None:
            return
        if len(waiting) > walked:  # the places were not listed before
            self._places = waiting if len(waiting) < _LISTED else None
            return
        self._first = walked - len(waiting)
        self._places[self._first : walked] = waiting
        if self._first > len(self._places) // 2:
            del self._places[: self._first]
            self._first = 0


def place_of(side: int, key: bytes, time: int) -> bytes:
    return time.to_bytes(8) + _SIDES[side] + key


def pending_serde(left: Serde, right: Serde) -> Serde:
    """The serde of (side, values): each value is encoded by the serde of its side, after its length."""
    serdes = left, right

    def encode(pending: tuple[int, list[Any]]) -> bytes:
        side, values = pending
        written = serdes[side].encode_column(values)
        return bytes([side]) + b"".join(_LENGTH.pack(len(data)) + data for data in written if data is not None)

    def decode(data: bytes) -> tuple[int, list[Any]]:
        side, at, values = data[0], 1, []
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + length
            values.append(serdes[side].decode(data[at - length : at]))
        return side, values

    return Serde(f"{left.name} or {right.name}", encode, decode, kind=GenericAlias(tuple, (left.kind, right.kind)))
