"""The rows of one side of a join of streams: recent ones are in memory, by key and time; older ones need a scan."""

from __future__ import annotations

import struct
from bisect import bisect_left
from itertools import chain
from operator import itemgetter

from streamtopo.stores.rows.layout import segment_start
from streamtopo.stores.rows.state import State

Timed = tuple[int, bytes]
"""A time and an encoded value: each reader decodes its own, so no value is shared."""

_AFTER_KEY = struct.Struct(">qI")
"""What follows the key in a row's place: its time, and a number that keeps equal times in order of arrival."""
_KEPT = 32_000_000
"""About how many bytes of rows to keep in memory."""
_FEW = 1
"""How many expired rows of a key may stay in memory until the next sweep."""


class Recent:
    """All rows from `floor` on are in `rows`, those of each key in the order of time and arrival.

    Joins mostly read recent rows, so the oldest rows are forgotten first. The state itself keeps none of them in
    memory (see `State.committed`); reading older rows means a scan.
    """

    def __init__(self, state: State) -> None:
        self.rows: dict[bytes, list[Timed]] = {}
        self.floor = 0
        self._state = state
        self._before_floor: dict[bytes, list[Timed]] = {}
        """Rows of the current chunk that are older than the floor, in order of arrival; later they are in the store."""
        self._encode = state.spec.value.encode
        self._loaded = False
        self._old = 0
        """At the last commit: the first segment with rows that have not expired."""
        self._put = 0
        """How many rows were put since then."""
        self._held = 0
        self._swept = 0
        """How many rows were left after the last sweep."""

    def load(self, oldest: int) -> None:
        """On the first call, read the stored rows, newest segments first, as many as may be kept in memory."""
        if self._loaded:
            return
        self._loaded = True
        width, most = self._state.spec.segment, _KEPT // self._state.row_bytes
        segment, newer, current = -1, dict[bytes, list[Timed]](), dict[bytes, list[Timed]]()
        loaded = 0
        for natural, row in self._state.scan(b"", None, reverse=True):
            time, _ = _AFTER_KEY.unpack_from(natural, len(natural) - _AFTER_KEY.size)
            if time // width != segment:
                _join(newer, current)
                segment, current = time // width, {}
            if time >= oldest:
                current.setdefault(natural[: -_AFTER_KEY.size], []).append((time, self._encode(row[0])))
                loaded += 1
            if loaded > most:
                self.floor = (segment + 1) * width
                break
        else:
            _join(newer, current)
        self.rows = {key: rows[::-1] for key, rows in newer.items()}
        self._held = self._swept = sum(map(len, self.rows.values()))

    def scan(self, key: bytes, start: int, stop: int) -> list[Timed]:
        """A key's rows with start <= time <= stop, from the store."""
        found: list[Timed] = []
        start, width = max(start, 0), self._state.spec.segment
        for segment in range(start // width, stop // width + 1):
            first, last = max(start, segment * width), min(stop, (segment + 1) * width - 1)
            prefix = segment_start(segment) + key
            past = prefix + (last + 1).to_bytes(8)
            for natural, row in self._state.scan(prefix + first.to_bytes(8), past):
                if len(natural) == len(key) + _AFTER_KEY.size:
                    found.append((_AFTER_KEY.unpack_from(natural, len(key))[0], self._encode(row[0])))
        return found

    def near(self, key: bytes, oldest: int, first: int, last: int) -> list[Timed]:
        """A key's rows with first <= time <= last; negative times count as 0, as in Kafka Streams.

        Rows before the oldest have expired: they are not found, now or later.
        """
        first = first if first > oldest else oldest
        first, last = first if first > 0 else 0, last if last > 0 else 0
        if first < self.floor:
            return self._across_floor(key, first, last)
        rows = self.rows.get(key)
        if rows is None or rows[-1][0] < first:
            return []
        start = 0 if rows[0][0] >= first else bisect_left(rows, (first,))
        if start > _FEW:
            gone = bisect_left(rows, (oldest,))
            self._held -= gone
            del rows[:gone]
            start -= gone
        if rows[-1][0] > last:
            return rows[start : bisect_left(rows, (last + 1,))]
        return rows[start:] if start else rows

    def _across_floor(self, key: bytes, first: int, last: int) -> list[Timed]:
        """What `near` finds if some rows may be older than the floor."""
        rows = self.rows.get(key, [])
        newer = rows[: bisect_left(rows, (last + 1,))]
        last = min(last, self.floor - 1)
        older = [row for row in self._before_floor.get(key, ()) if first <= row[0] <= last]
        stored = self.scan(key, first, last)
        return sorted(stored + older, key=itemgetter(0)) + newer

    def add(self, key: bytes, time: int, value: bytes) -> None:
        """From now on the row is found; `put` it at the end of the chunk."""
        if time < self.floor:
            self._before_floor.setdefault(key, []).append((time, value))
            return
        rows = self.rows.get(key)
        if rows is None:
            self.rows[key] = [(time, value)]
        elif rows[-1][0] <= time:
            rows.append((time, value))
        else:
            rows.insert(bisect_left(rows, (time + 1,)), (time, value))

    def put(self, keys: list[bytes], times: list[int], values: list[bytes], number: int) -> None:
        """Put rows into the store, numbered from `number` on."""
        self._held += len(keys)
        self._put += len(keys)
        self._before_floor.clear()
        pack = _AFTER_KEY.pack
        numbered = enumerate(zip(keys, times, strict=True), number)
        self._state.append([key + pack(time, at & 0xFFFFFFFF) for at, (key, time) in numbered], values, times)

    def expire(self, oldest: int) -> None:
        """Right before a commit: delete rows older than the oldest time, a few at a time.

        A segment is deleted if it had expired by the last commit already, so it has no uncommitted rows.
        """
        self._sweep(oldest)
        self._state.expiry.expire(self._old * self._state.spec.segment, 2 * self._put + 100)
        self._old, self._put = max(oldest // self._state.spec.segment, self._old), 0

    def _sweep(self, oldest: int) -> None:
        """Forget expired rows and, if there are too many, the oldest ones; only now and then, to keep the cost low."""
        most = _KEPT // self._state.row_bytes
        if self._held <= min(2 * self._swept + 1000, most):
            return
        if self._held > most:
            times = sorted(time for time, _ in chain.from_iterable(self.rows.values()))
            if len(times) > most // 2:
                self.floor = max(self.floor, times[-1 - most // 2] + 1)
        least = max(oldest, self.floor)
        kept = ((key, _since(rows, least)) for key, rows in self.rows.items())
        self.rows = {key: rows for key, rows in kept if rows}
        self._held = self._swept = sum(map(len, self.rows.values()))


def _since(rows: list[Timed], least: int) -> list[Timed]:
    return rows if rows[0][0] >= least else rows[bisect_left(rows, (least,)) :]


def _join(newer: dict[bytes, list[Timed]], older: dict[bytes, list[Timed]]) -> None:
    for key, rows in older.items():
        newer.setdefault(key, []).extend(rows)
