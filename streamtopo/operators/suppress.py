"""Updates of a table held back: until their window closes, or for so long, the last one of each key goes on."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from streamtopo.errors import StreamtopoError
from streamtopo.operators.tables import keyed
from streamtopo.records import NOTHING, Chunk, Headers
from streamtopo.serdes import Serde
from streamtopo.stores.state import State
from streamtopo.topology import Bindings
from streamtopo.windows import FOREVER

_FRAME = struct.Struct(">Qqiii")
_LENGTHS = struct.Struct(">ii")
_NONE = -1


class Held(NamedTuple):
    """The last update of a key, and the value that whoever follows this table still sees."""

    since: int
    """When it began to be held: the time of the key's first update, or the end of its window."""
    time: int
    value: Any
    prior: Any
    headers: Headers


@dataclass(frozen=True)
class Rule:
    """When updates go on."""

    wait: int
    """Milliseconds of stream time, from `since` on."""
    window_closes: bool = False
    """From the window's end on; what is deleted before that was never seen, so its deletion does not go on."""
    max_records: int | None = None
    shut_down: bool = False
    """If there are more, stop; otherwise the oldest go on early."""
    clocks: tuple[str, ...] = ()
    """The names of those that have the stream time of what makes the updates, by which windows close."""


class Suppress:
    """The step of one task. Updates are rows of the state; in memory there is when each of them is due."""

    def __init__(self, node: str, rule: Rule, state: State, bindings: Bindings) -> None:
        self._node, self._rule, self.state, self._dropped = node, rule, state, bindings.count
        self._clock = bindings.clock(state.spec.name)
        self._above = [bindings.clock(name) for name in rule.clocks]
        self._held: set[Hashable] = set()
        self._due: list[tuple[int, bytes, Any]] = []
        self._filled = False

    def __call__(self, chunk: Chunk) -> Chunk:
        self._fill()
        chunk = keyed(chunk, self._dropped)
        index = self.state.index(chunk.keys)
        rows = self.state.load([key for key in set(index) if key in self._held])
        self._latest = self._latest_to_follow()
        puts, released = _Rows(), _Rows()
        headers = chunk.headers or [()] * len(chunk)
        old = chunk.old or [None] * len(chunk)
        columns = zip(chunk.keys, index, chunk.values, chunk.timestamps, headers, old, strict=True)
        for place, (key, kept, *update) in enumerate(columns):
            held = self._held_now(rows, key, kept, *update)
            rows[kept] = held, held.time
            puts.add(place, kept, held)
            self._release(place, rows, puts, released)
        if max(chunk.timestamps, default=-1) > self._latest:
            self._clock.observe(self._latest)
            self._release(len(chunk) - 1, rows, puts, released)
        return self._put(chunk, puts, released)

    def advance(self, moment: Chunk) -> Chunk:
        """Stream time reaches that of this row, which is no record."""
        self._fill()
        self._clock.time = max(self._clock.time, *moment.timestamps)
        puts, released = _Rows(), _Rows()
        self._release(0, self.state.load(()), puts, released)
        return self._put(moment.with_old([None]), puts, released)

    def _latest_to_follow(self) -> int:
        """What makes the updates may yet change windows that close after its stream time.

        An update may have a later time: that of a record which was too far ahead when it came, and is not any more.
        """
        above = max((clock.time for clock in self._above), default=-1)
        return above if above >= 0 and self._clock.limited else FOREVER

    def _release(self, place: int, rows: dict[Any, Any], puts: _Rows, released: _Rows) -> None:
        while self._due and self._is_due():
            _, _, gone = heappop(self._due)
            self._held.discard(gone)
            released.add(place, gone, self.state.load_also(gone)[0])  # type: ignore[index]
            rows[gone] = None
            puts.add(place, gone, None)

    def _put(self, chunk: Chunk, puts: _Rows, released: _Rows) -> Chunk:
        times = [chunk.timestamps[place] for place in puts.places]
        self.state.changed(puts.index, chunk.emit(puts.places, puts.index, puts.held).with_rows(puts.held, times))
        return self._updates(chunk, released)

    def flush(self) -> Chunk:
        """What waits here waits for stream time, not for the commit."""
        return NOTHING

    def _held_now(
        self, rows: dict[Any, Any], key: Any, kept: Hashable, value: Any, time: int, headers: Headers, old: Any
    ) -> Held:
        if time <= self._latest:
            self._clock.observe(time)
        if kept in self._held:
            before: Held = rows[kept][0]
            return before._replace(time=time, value=value, headers=headers)
        held = Held(key.end if self._rule.window_closes else time, time, value, old, headers)
        self.state.absent((kept,))
        self._held.add(kept)
        heappush(self._due, (held.since, self.state.spec.key.encode(key), kept))
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

    def _updates(self, chunk: Chunk, released: _Rows) -> Chunk:
        if self._rule.window_closes:
            released = released.without_deletions()
        serde, held = self.state.spec.key, released.held
        keys = released.index if serde.exact else serde.decode_column(released.index)
        updates = chunk.emit(released.places, keys, [update.value for update in held])
        headers = [update.headers for update in held]
        return replace(
            updates,
            timestamps=[update.time for update in held],
            headers=headers if any(headers) else None,
            old=None if chunk.old is None else [update.prior for update in held],
        )

    def _fill(self) -> None:
        """Once, from what is in the state."""
        if self._filled:
            return
        self._filled = True
        serde = self.state.spec.key
        for data, (held, _) in self.state.scan(b"", None):
            kept = serde.decode(data) if serde.exact else data
            self._held.add(kept)
            self._due.append((held.since, data, kept))
        heapify(self._due)


@dataclass
class _Rows:
    places: list[int] = field(default_factory=list)
    index: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)

    def add(self, place: int, kept: Any, held: Held | None) -> None:
        self.places.append(place)
        self.index.append(kept)
        self.held.append(held)

    def without_deletions(self) -> _Rows:
        rows = zip(self.places, self.index, self.held, strict=True)
        kept = [row for row in rows if row[2].value is not None]
        return _Rows([place for place, _, _ in kept], [key for _, key, _ in kept], [held for _, _, held in kept])


def held_serde(value: Serde) -> Serde:
    """Of updates whose values have this serde: times, lengths, value, value before, and headers."""

    def encode(held: Held) -> bytes:
        new, prior = (None if part is None else value.encode(part) for part in (held.value, held.prior))
        lengths = (_NONE if part is None else len(part) for part in (new, prior))
        frame = _FRAME.pack(held.since, held.time, *lengths, len(held.headers))
        return b"".join([frame, new or b"", prior or b"", *map(_header, held.headers)])

    def decode(data: bytes) -> Held:
        since, time, new, prior, headers = _FRAME.unpack_from(data)
        reader = _Reader(data, _FRAME.size)
        value_now, value_before = (
            None if length == _NONE else value.decode(reader.take(length)) for length in (new, prior)
        )
        return Held(since, time, value_now, value_before, tuple(reader.header() for _ in range(headers)))

    return Serde(f"held {value.name}", encode, decode, mutable=False, kind=value.kind)


def _header(header: tuple[str, bytes | None]) -> bytes:
    name, data = header[0].encode(), header[1]
    return _LENGTHS.pack(len(name), _NONE if data is None else len(data)) + name + (data or b"")


@dataclass
class _Reader:
    data: bytes
    at: int

    def take(self, length: int) -> bytes:
        start, self.at = self.at, self.at + length
        return self.data[start : self.at]

    def header(self) -> tuple[str, bytes | None]:
        name, data = _LENGTHS.unpack(self.take(_LENGTHS.size))
        return self.take(name).decode(), None if data == _NONE else self.take(data)
