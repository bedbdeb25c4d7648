"""Two streams joined: each row with the other side's rows of its key whose times are near enough."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

from streamtopo.operators.aggregate import Dropped
from streamtopo.operators.pending import LEFT, RIGHT, JoinWindow, Pending, place_of
from streamtopo.records import NOTHING, Chunk, private, unshared
from streamtopo.serdes import Serde
from streamtopo.stores.recent import Recent, Timed
from streamtopo.stores.state import Row
from streamtopo.topology import OperatorClock

KeyedJoiner = Callable[[Any, Any, Any], Any]
"""(key, left value, right value) -> the result's value."""


class Side(NamedTuple):
    """What a join keeps of one stream."""

    recent: Recent
    value: Serde
    time: OperatorClock
    """The largest time of a row that was kept: what is older by more than the retention is gone."""
    numbers: OperatorClock
    """The number of the last row that was kept: a clock, because clocks outlive restarts."""
    alone: bool
    """Rows without a partner go out alone."""


class JoinStreams:
    """One step for both sides: it gets their rows interleaved, as single records would have come.

    The described nodes before it, one window and one join for each side, pass their rows on. If each did its own share,
    each would have to see what the other does between its rows, row by row.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        key: Serde,
        joiner: KeyedJoiner,
        window: JoinWindow,
        time: OperatorClock,
        pending: Pending | None,
        dropped: Dropped,
    ) -> None:
        self._sides = sides
        self._key = key
        self._joiner = joiner
        self._window = window
        self._time = time
        self._pending = pending
        self._dropped = dropped
        self._copied: list[Callable[[Any], Any]] = [private if side.value.mutable else _as_it_is for side in sides]
        self._reach = (window.before, window.after), (window.after, window.before)

    def __call__(self, chunk: Chunk) -> Chunk:
        keys = self._key.encode_column(chunk.keys)
        self._load(chunk, keys)
        joined = Joined(chunk, self._joiner, self._copied)
        added = self._join(chunk, keys, joined)
        for side, rows in zip(self._sides, added, strict=True):
            side.numbers.time += len(rows)
            side.recent.put(dict(rows))
        return joined.chunk()

    def flush(self) -> Chunk:
        """All is about to be committed."""
        for side in self._sides:
            side.recent.expire(side.time.time - self._window.retention + 1)
        return NOTHING

    def _load(self, chunk: Chunk, keys: list[bytes | None]) -> None:
        for side in self._sides:
            side.recent.load(side.time.time - self._window.retention + 1)
        if self._pending is not None:
            rows = zip(chunk.sides or (), keys, chunk.timestamps, strict=True)
            alone = [side.alone for side in self._sides]
            self._pending.load([place_of(side, key, time) for side, key, time in rows if key and alone[side]])

    def _join(
        self, chunk: Chunk, keys: list[bytes | None], joined: Joined
    ) -> tuple[list[tuple[bytes, Row]], list[tuple[bytes, Row]]]:
        """The rows to put into the store of each side."""
        retention, pending, now = self._window.retention, self._pending, self._time.time
        recent = [side.recent for side in self._sides]
        seen = [side.time.time for side in self._sides]
        numbers = [side.numbers.time + 1 for side in self._sides]
        added: tuple[list[tuple[bytes, Row]], list[tuple[bytes, Row]]] = [], []
        rows = zip(chunk.sides or (), keys, self._private(chunk), chunk.timestamps, strict=True)
        for place, (side, key, value, time) in enumerate(rows):
            now = time if time > now else now
            if value is None or key is None:
                self._not_kept(place, side, value, time, joined)
                continue
            if pending is not None and time == now:
                self._close(place, side, now, pending, joined)
            other, (back, ahead) = 1 - side, self._reach[side]
            found = _near(recent[other], key, max(time - back, seen[other] - retention + 1, 0), time + ahead)
            if found:
                joined.together(place, side, value, time, found)
            if pending is not None:
                self._partners(place, side, key, value, found, max(time + ahead, 0) < now, pending, joined)
            seen[side] = time if time > seen[side] else seen[side]
            if time > seen[side] - retention:
                added[side].append(recent[side].add(key, time, value, numbers[side] + len(added[side])))
        self._time.time, self._sides[LEFT].time.time, self._sides[RIGHT].time.time = now, *seen
        return added

    def _private(self, chunk: Chunk) -> list[Any]:
        """The values, to keep: joiners get others."""
        if self._copied == [_as_it_is, _as_it_is]:
            return chunk.values
        return [self._copied[side](value) for side, value in zip(chunk.sides or (), chunk.values, strict=True)]

    def _not_kept(self, place: int, side: int, value: Any, time: int, joined: Joined) -> None:
        """A row that can have no partner."""
        if value is not None and self._sides[side].alone:
            joined.alone(place, side, None, value, time)
        else:
            self._dropped("null key or value", 1)

    def _close(self, place: int, side: int, now: int, pending: Pending, joined: Joined) -> None:
        for row in pending.closed(side, now):
            joined.alone(place, row.side, self._key.decode(row.key), row.value, row.time)

    def _partners(
        self,
        place: int,
        side: int,
        key: bytes,
        value: Any,
        found: list[Timed],
        late: bool,
        pending: Pending,
        joined: Joined,
    ) -> None:
        """Those found are alone no more; a row that found none waits for one, unless its window has passed already."""
        time = joined.time(place)
        if found:
            if self._sides[1 - side].alone:
                for other_time, _ in found:
                    pending.remove(place_of(1 - side, key, other_time), other_time)
        elif self._sides[side].alone:
            if late:
                joined.alone(place, side, joined.key(place), value, time)
            else:
                pending.add(place_of(side, key, time), side, time, value)


def _near(recent: Recent, key: bytes, first: int, last: int) -> list[Timed]:
    """The rows of a key with first <= time <= last; a last time before all times counts as 0, as in Kafka Streams."""
    last = last if last > 0 else 0
    if first < recent.floor:
        return recent.scan(key, first, last)
    rows = recent.rows.get(key)
    if rows is None or (rows[0][0] >= first and rows[-1][0] <= last):
        return rows or []
    return rows[bisect_left(rows, (first,)) : bisect_left(rows, (last + 1,))]


class Joined:
    """The rows that come out, column by column, each with the place of the row it stems from."""

    def __init__(self, chunk: Chunk, joiner: KeyedJoiner, copied: list[Callable[[Any], Any]]) -> None:
        self._chunk = chunk
        self._joiner = joiner
        self._copy_left, self._copy_right = copied
        self._copies = copied != [_as_it_is, _as_it_is]
        self._places: list[int] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._times: list[int] = []

    def key(self, place: int) -> Any:
        return self._chunk.keys[place]

    def time(self, place: int) -> int:
        return self._chunk.timestamps[place]

    def together(self, place: int, side: int, value: Any, time: int, found: list[Timed]) -> None:
        key, joiner, left, right = self._chunk.keys[place], self._joiner, self._copy_left, self._copy_right
        for other_time, other in found:
            pair = (value, other) if side == LEFT else (other, value)
            self._values.append(joiner(key, left(pair[0]), right(pair[1])) if self._copies else joiner(key, *pair))
            self._places.append(place)
            self._keys.append(key)
            self._times.append(time if time > other_time else other_time)

    def alone(self, place: int, side: int, key: Any, value: Any, time: int) -> None:
        left, right = (None, self._copy_right(value)) if side == RIGHT else (self._copy_left(value), None)
        self._values.append(self._joiner(key, left, right))
        self._places.append(place)
        self._keys.append(key)
        self._times.append(time)

    def chunk(self) -> Chunk:
        values = unshared(self._values)
        return self._chunk.emit(self._places, self._keys, values).with_rows(values, self._times)


def _as_it_is(value: Any) -> Any:
    return value
