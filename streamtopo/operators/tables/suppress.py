"""Holds updates of a table back, until their window closes or for a time, and forwards the last one of each key."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from streamtopo.errors import StreamtopoError
from streamtopo.operators.tables.conversions import keyed
from streamtopo.records import Chunk, Headers
from streamtopo.serdes import Serde
from streamtopo.steps import Step
from streamtopo.stores.rows.state import State
from streamtopo.topology.operator import Bindings
from streamtopo.windows import FOREVER

_FRAME = struct.Struct(">Qqiii")
_LENGTHS = struct.Struct(">ii")
_NONE = -1


class Held(NamedTuple):
    """The last update of a key, and the value that was forwarded last."""

    since: int
    """The time from which it is held: that of the first update of the key, or the end of its window."""
    time: int
    value: Any
    prior: Any
    headers: Headers


@dataclass(frozen=True)
class Rule:
    """When updates are forwarded."""

    wait: int
    """Milliseconds of stream time after `since`."""
    window_closes: bool = False
    """Whether it waits for the end of a window. A row deleted before was never forwarded, nor is its deletion."""
    max_records: int | None = None
    shut_down: bool = False
    """With more records: stop, or forward the oldest ones early."""
    clocks: tuple[str, ...] = ()
    """The names of the clocks with the stream time of the aggregation, by which windows close."""


class Suppress(Step):
    """Updates are rows of the store. When they are due is kept in memory.

    Nothing is forwarded before a commit: updates wait for stream time.
    """

    rows: State

    def __init__(self, node: str, rule: Rule, state: State, bindings: Bindings) -> None:
        self._node, self._rule, self.rows, self._dropped = node, rule, state, bindings.count
        self._clock = bindings.clock(state.spec.name, led=True)
        self._above = [bindings.clock(name) for name in rule.clocks]
        self._held: set[Hashable] = set()
        self._due: list[tuple[int, bytes, Any]] = []
        self._filled = False

    def process(self, chunk: Chunk) -> Chunk:
        self._fill()
        chunk = keyed(chunk, self._dropped)
        index = self.rows.index(chunk.keys)
        rows = self.rows.load([key for key in set(index) if key in self._held])
        self._latest = self._latest_to_follow()
        puts, released = _HeldRows(), _HeldRows()
        headers = chunk.headers or [()] * len(chunk)
        old = chunk.old or [None] * len(chunk)
        columns = zip(chunk.keys, index, chunk.values, chunk.timestamps, headers, old, strict=True)
        for place, (key, kept, *update) in enumerate(columns):
            held = self._held_now(rows, key, kept, *update)
            rows[kept] = held, held.time
            puts.add(place, kept, held)
            self._release(place, rows, puts, released)
        if (newest := min(max(chunk.timestamps, default=-1), self._latest)) > self._clock.time:
            self._clock.observe(newest)
            self._release(len(chunk) - 1, rows, puts, released)
        return self._put(chunk, puts, released)

    @property
    def stream_time(self) -> int:
        return self._clock.time

    def advance(self, moment: Chunk) -> Chunk:
        self._fill()
        self._clock.reach(*moment.timestamps)
        puts, released = _HeldRows(), _HeldRows()
        self._release(0, self.rows.load(()), puts, released)
        return self._put(moment.with_old([None]), puts, released)

    def _latest_to_follow(self) -> int:
        """The aggregation may still change windows that close after its own stream time.

        An update may have a later time: that of an earlier record of its row, which was too far ahead when it came.
        That record has not moved the aggregation's time, so an update that does not change the time does not either.
        """
        above = max((clock.seen for clock in self._above), default=-1)
        return above if above >= 0 and self._clock.limited else FOREVER

    def _release(self, place: int, rows: dict[Any, Any], puts: _HeldRows, released: _HeldRows) -> None:
        while self._due and self._is_due():
            _, _, gone = heappop(self._due)
            self._held.discard(gone)
            self.rows.look((gone,))
            self.rows.load_also((gone,))
            released.add(place, gone, rows[gone][0])
            rows[gone] = None
            puts.add(place, gone, None)

    def _put(self, chunk: Chunk, puts: _HeldRows, released: _HeldRows) -> Chunk:
        times = [chunk.timestamps[place] for place in puts.places]
        changes = chunk.emit(puts.places, puts.index, puts.held).with_rows(puts.held, times)
        self.rows.changed(puts.index, changes)
        return self._updates(chunk, changes.select([held is None for held in puts.held]), released)

    def _held_now(
        self, rows: dict[Any, Any], key: Any, kept: Hashable, value: Any, time: int, headers: Headers, old: Any
    ) -> Held:
        before: Held | None = rows[kept][0] if kept in self._held else None
        if time <= self._latest and (before is None or time > before.time):
            self._clock.observe(time)
        if before is not None:
            return before._replace(time=time, value=value, headers=headers)
        held = Held(key.end if self._rule.window_closes else time, time, value, old, headers)
        self.rows.load_also((kept,))
        self._held.add(kept)
        heappush(self._due, (held.since, self.rows.spec.key.encode(key), kept))
        return held

    def _is_due(self) -> bool:
        if self._due[0][0] + self._rule.wait <= self._clock.time:
            return True
        limit = self._rule.max_records
        if limit is None or len(self._held) <= limit:
            return False
        if self._rule.shut_down:
            raise StreamtopoError(
                f'"{self._node}": buffer exceeded its max capacity of {limit} records; give more max_records, '
                'or when_full="emit_early"'
            )
        return True

    def _updates(self, chunk: Chunk, gone: Chunk, released: _HeldRows) -> Chunk:
        """Each has the order of its row in `gone`, the rows that were released: joins see that first."""
        if self._rule.window_closes:
            gone = gone.select([update.value is not None for update in released.held])
            released = released.without_deletions()
        serde, held = self.rows.spec.key, released.held
        keys = released.index if serde.exact else serde.decode_column(released.index)
        headers = [update.headers for update in held]
        return replace(
            gone,
            keys=keys,
            values=[update.value for update in held],
            timestamps=[update.time for update in held],
            headers=headers if any(headers) else None,
            old=None if chunk.old is None else [update.prior for update in held],
        )

    def _fill(self) -> None:
        """Load the rows that are held back from the state, once."""
        if self._filled:
            return
        self._filled = True
        serde = self.rows.spec.key
        for data, (held, _) in self.rows.scan(b"", None):
            kept = serde.decode(data) if serde.exact else data
            self._held.add(kept)
            self._due.append((held.since, data, kept))
        heapify(self._due)


@dataclass
class _HeldRows:
    places: list[int] = field(default_factory=list)
    index: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)

    def add(self, place: int, kept: Any, held: Held | None) -> None:
        self.places.append(place)
        self.index.append(kept)
        self.held.append(held)

    def without_deletions(self) -> _HeldRows:
        rows = zip(self.places, self.index, self.held, strict=True)
        kept = [row for row in rows if row[2].value is not None]
        return _HeldRows([place for place, _, _ in kept], [key for _, key, _ in kept], [held for _, _, held in kept])


def held_serde(value: Serde) -> Serde:
    """The serde of held updates: times, lengths, value, value before, and headers."""

    def encode(held: Held) -> bytes:
        new, prior = (None if part is None else value.encode(part) for part in (held.value, held.prior))
        lengths = (_NONE if part is None else len(part) for part in (new, prior))
        frame = _FRAME.pack(held.since, held.time, *lengths, len(held.headers))
        return b"".join([frame, new or b"", prior or b"", *map(_header, held.headers)])

    def decode(data: bytes) -> Held:
        since, time, new, prior, headers = _FRAME.unpack_from(data)
        reader = _HeldBytes(data, _FRAME.size)
        value_now, value_before = (
            None if length == _NONE else value.decode(reader.take(length)) for length in (new, prior)
        )
        return Held(since, time, value_now, value_before, tuple(reader.header() for _ in range(headers)))

    return Serde(f"held {value.name}", encode, decode, mutable=False, kind=value.kind)


def _header(header: tuple[str, bytes | None]) -> bytes:
    name, data = header[0].encode(), header[1]
    return _LENGTHS.pack(len(name), _NONE if data is None else len(data)) + name + (data or b"")


@dataclass
class _HeldBytes:
    data: bytes
    at: int

    def take(self, length: int) -> bytes:
        start, self.at = self.at, self.at + length
        return self.data[start : self.at]

    def header(self) -> tuple[str, bytes | None]:
        name, data = _LENGTHS.unpack(self.take(_LENGTHS.size))
        return self.take(name).decode(), None if data == _NONE else self.take(data)
