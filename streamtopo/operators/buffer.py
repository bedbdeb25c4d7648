"""Records of a stream that wait before they are joined with a table, so that late updates of it still count."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

import orjson

from streamtopo.records import Chunk, Headers, Step, emissions
from streamtopo.serdes import BYTES, Serde
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.state import State
from streamtopo.topology import OperatorClock

_NUMBER = struct.Struct(">I")


class Waiting(NamedTuple):
    key: Any
    value: Any
    time: int
    headers: Headers


class Buffer:
    """Kept by time, key and a number that keeps equal ones in order of arrival; all are at hand, in a heap as well."""

    def __init__(self, state: State, key: Serde, clocks: tuple[OperatorClock, OperatorClock], grace: int) -> None:
        self._state = state
        self._key = key
        self._time, self._number = clocks
        """The largest time of a record that waited, and the number of the last."""
        self._grace = grace
        self._places: list[bytes] | None = None

    def __call__(self, chunk: Chunk) -> Chunk:
        """In place of each record those that its time lets go; a record that is late already goes at once.

        Other rows, those of tables, stay where they are among them.
        """
        waiting = self._waiting()
        headers = chunk.headers or [()] * len(chunk)
        sides = chunk.sides or [0] * len(chunk)
        places: list[int] = []
        gone: list[Waiting] = []
        for place, row in enumerate(zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True)):
            let_go = [Waiting(*row)] if sides[place] else self._take(Waiting(*row), waiting)
            places += [place] * len(let_go)
            gone += let_go
        return _in_place(chunk, places, gone)

    def advance(self, moment: Chunk) -> Chunk:
        """Stream time reaches that of this row, which is no record: in its place those that it lets go."""
        self._time.time = max(self._time.time, *moment.timestamps)
        gone = list(self._due(self._waiting()))
        return _in_place(moment, [0] * len(gone), gone)

    def _waiting(self) -> list[bytes]:
        if self._places is None:
            self._places = [place for place, _ in self._state.scan(b"", None)]
        return self._places

    def _take(self, row: Waiting, places: list[bytes]) -> list[Waiting]:
        if row.key is None or row.value is None or row.time < self._time.time - self._grace:
            return [row]
        self._time.observe(row.time)
        self._number.time += 1
        place = row.time.to_bytes(8) + self._key.encode(row.key) + _NUMBER.pack(self._number.time & 0xFFFFFFFF)
        self._state.add({place: ((row.value, row.headers), row.time)})
        heappush(places, place)
        return list(self._due(places))

    def _due(self, places: list[bytes]) -> Iterator[Waiting]:
        while places and int.from_bytes(places[0][:8]) <= self._time.time - self._grace:
            place = heappop(places)
            row = self._state.row(place)
            assert row is not None, "what is in the heap is in the store"
            value, headers = row[0]
            time = int.from_bytes(place[:8])
            self._state.put(place, None, time)
            yield Waiting(self._key.decode(place[8 : -_NUMBER.size]), value, time, headers)


def _in_place(chunk: Chunk, places: list[int], gone: list[Waiting]) -> Chunk:
    taken = chunk.take(places)
    return replace(
        taken,
        order=taken.order and emissions(taken.order),
        keys=[one.key for one in gone],
        values=[one.value for one in gone],
        timestamps=[one.time for one in gone],
        headers=[one.headers for one in gone] if any(one.headers for one in gone) else None,
    )


@dataclass(frozen=True)
class Buffered:
    """A join with records that wait in front of it."""

    buffer: Buffer
    join: Step

    def __call__(self, chunk: Chunk) -> Chunk:
        return self.join(self.buffer(chunk))

    def advance(self, moment: Chunk) -> Chunk:
        gone = self.buffer.advance(moment)
        return self.join(gone) if len(gone) else gone


def buffer_store(name: str, key: Serde, value: Serde) -> StoreSpec:
    """Values are kept with their headers."""

    def encode(row: tuple[Any, Headers]) -> bytes:
        headers = orjson.dumps([[name, None if content is None else content.hex()] for name, content in row[1]])
        return _NUMBER.pack(len(headers)) + headers + value.encode(row[0])

    def decode(data: bytes) -> tuple[Any, Headers]:
        start = _NUMBER.size
        end = start + _NUMBER.unpack_from(data)[0]
        kept = orjson.loads(data[start:end])
        headers = tuple([(name, None if content is None else bytes.fromhex(content)) for name, content in kept])
        return value.decode(data[end:]), headers

    serde = Serde(f"{value.name} with headers", encode, decode, kind=value.kind)
    return StoreSpec(name, replace(BYTES, name=f"{key.name} by time", kind=key.kind), serde, Kind.KEY_VALUE)
