"""Records of a stream that wait before they are joined with a table, so late updates of the table still count."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

import orjson

from streamtopo.operators.joins.lookup import Lookup
from streamtopo.records import Chunk, Headers, PlacedPuts, emissions
from streamtopo.serdes import BYTES, Serde
from streamtopo.steps import WatchingStep
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.state import State
from streamtopo.topology.clocks import OperatorClock, Register

_NUMBER = struct.Struct(">I")


class BufferedRecord(NamedTuple):
    key: Any
    value: Any
    time: int
    headers: Headers


class Buffer:
    """Records by time, key and a number, which keeps equal ones in order of arrival. A heap in memory has all keys."""

    def __init__(self, state: State, key: Serde, time: OperatorClock, number: Register, grace: int) -> None:
        self._state = state
        self._key = key
        self._time = time
        """The largest time of a record that was buffered."""
        self._number = number
        """The number of the last record that was buffered."""
        self._grace = grace
        self._places: list[bytes] | None = None

    def release(self, chunk: Chunk) -> tuple[Chunk, list[int]]:
        """In place of each record those that its time releases, and the place of that record for each.

        A record that is late already is released at once.
        """
        waiting = self._waiting()
        headers = chunk.headers or [()] * len(chunk)
        places: list[int] = []
        gone: list[BufferedRecord] = []
        for place, row in enumerate(zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True)):
            let_go = self._take(BufferedRecord(*row), waiting)
            places += [place] * len(let_go)
            gone += let_go
        return _in_place(chunk, places, gone), places

    def advance(self, moment: Chunk) -> Chunk:
        """The records that are released when stream time reaches this moment."""
        self._time.reach(*moment.timestamps)
        gone = list(self._due(self._waiting()))
        return _in_place(moment, [0] * len(gone), gone)

    @property
    def stream_time(self) -> int:
        return self._time.time

    def _waiting(self) -> list[bytes]:
        if self._places is None:
            self._places = [place for place, _ in self._state.scan(b"", None)]
        return self._places

    def _take(self, row: BufferedRecord, places: list[bytes]) -> list[BufferedRecord]:
        if row.key is None or row.value is None or row.time < self._time.time - self._grace:
            return [row]
        self._time.observe(row.time)
        self._number.value += 1
        place = row.time.to_bytes(8) + self._key.encode(row.key) + _NUMBER.pack(self._number.value & 0xFFFFFFFF)
        self._state.add({place: ((row.value, row.headers), row.time)})
        heappush(places, place)
        return list(self._due(places))

    def _due(self, places: list[bytes]) -> Iterator[BufferedRecord]:
        while places and int.from_bytes(places[0][:8]) <= self._time.time - self._grace:
            place = heappop(places)
            row = self._state.row(place)
            assert row is not None, "what is in the heap is in the store"
            value, headers = row[0]
            time = int.from_bytes(place[:8])
            self._state.put(place, None, time)
            yield BufferedRecord(self._key.decode(place[8 : -_NUMBER.size]), value, time, headers)


def _in_place(chunk: Chunk, places: list[int], gone: list[BufferedRecord]) -> Chunk:
    taken = chunk.take(places)
    return replace(
        taken,
        order=taken.order and emissions(taken.order),
        keys=[one.key for one in gone],
        values=[one.value for one in gone],
        timestamps=[one.time for one in gone],
        headers=[one.headers for one in gone] if any(one.headers for one in gone) else None,
    )


class Buffered(WatchingStep):
    """A join whose records wait in a buffer before they are joined."""

    def __init__(self, buffer: Buffer, lookup: Lookup, join: WatchingStep) -> None:
        self._buffer = buffer
        self._lookup = lookup
        self._join = join

    def process_watching(self, chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        released, places = self._buffer.release(chunk)
        return self._join.process_watching(released, [some.moved(places) for some in puts])

    @property
    def stream_time(self) -> int:
        return self._buffer.stream_time

    def advance(self, moment: Chunk) -> Chunk:
        """No version has been removed that a record waits for: the grace is not longer than the history."""
        gone = self._buffer.advance(moment)
        with self._lookup.whole_history():
            return self._join.process(gone) if len(gone) else gone


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
