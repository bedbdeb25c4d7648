"""Joins two streams: each row with the rows of the other side with the same key and a time in the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamtopo.errors import faults
from streamtopo.operators.joins.recent import Recent, Timed
from streamtopo.operators.joins.unmatched import LEFT, RIGHT, JoinWindow, Pending, place_of
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.operators.windows.shared import LATE
from streamtopo.records import NOTHING, Chunk, private, unshared
from streamtopo.row_calls import noted_row
from streamtopo.serdes import Serde, encoded
from streamtopo.steps import Step
from streamtopo.topology.clocks import OperatorClock, Register

KeyedJoiner = Callable[[Any, Any, Any], Any]
"""(key, left value, right value) -> the value of the result."""


class StreamSide(NamedTuple):
    """What a join keeps of one stream."""

    recent: Recent
    value: Serde
    time: OperatorClock
    """The largest time of the rows that were kept. Rows older than the retention before it are expired."""
    number: Register
    """The number of the last row that was kept."""
    alone: bool
    """Whether rows without a match are joined with None."""


class JoinStreams(Step):
    """One step for both sides, which gets their rows interleaved, in the order of the records.

    The nodes described before it, a window and a join for each side, only forward rows. If each of them did its part,
    each would have to see what the other one does between its rows, row by row.
    """

    def __init__(
        self,
        sides: tuple[StreamSide, StreamSide],
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
        self._reach = (window.before, window.after), (window.after, window.before)

    def process(self, chunk: Chunk) -> Chunk:
        keys, values = self._key.encode_column(chunk.keys), self._encoded(chunk)
        self._load(chunk, keys)
        joined = Joined(chunk, self._joiner, self._sides)
        for side, places in zip(self._sides, self._join(chunk, keys, values, joined), strict=True):
            added_keys: Any = [keys[place] for place in places]
            added_values: Any = [values[place] for place in places]
            times = [chunk.timestamps[place] for place in places]
            side.recent.put(added_keys, times, added_values, side.number.value + 1)
            side.number.value += len(places)
        return joined.chunk()

    def before_commit(self) -> Chunk:
        for side in self._sides:
            side.recent.expire(side.time.time - self._window.retention + 1)
        return NOTHING

    @property
    def stream_time(self) -> int:
        return self._time.time

    def advance(self, moment: Chunk) -> Chunk:
        """Join rows whose window closes with None."""
        self._time.reach(*moment.timestamps)
        joined = Joined(moment, self._joiner, self._sides)
        if self._pending is not None:
            self._pending.load([])
            for side in (LEFT, RIGHT):
                self._close(0, side, self._time.time, self._pending, joined)
        return joined.chunk()

    def _load(self, chunk: Chunk, keys: list[bytes | None]) -> None:
        for side in self._sides:
            side.recent.load(side.time.time - self._window.retention + 1)
        if self._pending is not None:
            rows = zip(chunk.sides or (), keys, chunk.timestamps, strict=True)
            alone = [side.alone for side in self._sides]
            self._pending.load([place_of(side, key, time) for side, key, time in rows if key and alone[side]])

    def _encoded(self, chunk: Chunk) -> list[bytes | None]:
        """The encoded values. Joiners get values decoded from them, so that none is shared."""
        left, right = (side.value for side in self._sides)
        if left is right:
            return encoded(left, chunk.values, "value")
        sides = chunk.sides or []
        columns = []
        for number, serde in enumerate((left, right)):
            values = [value for side, value in zip(sides, chunk.values, strict=True) if side == number]
            columns.append(iter(encoded(serde, values, "value")))
        return [next(columns[side]) for side in sides]

    def _join(
        self, chunk: Chunk, keys: list[bytes | None], kept: list[bytes | None], joined: Joined
    ) -> tuple[list[int], list[int]]:
        """The places of the rows to put into the store of each side."""
        retention, pending = self._window.retention, self._pending
        near, keep = zip(*[(side.recent.near, side.recent.add) for side in self._sides], strict=True)
        expired = [side.time.time - retention for side in self._sides]
        seen = [side.time.seen for side in self._sides]
        added: tuple[list[int], list[int]] = [], []
        late = 0
        latest = self._time.see(chunk.timestamps)
        clock = self._time.held_back(latest)
        rows = zip(chunk.sides or (), keys, chunk.values, kept, chunk.timestamps, clock, latest, strict=True)
        for place, (side, key, value, data, time, now, newest) in enumerate(rows):
            if data is None or key is None:
                self._not_kept(place, side, value, time, joined)
                continue
            if pending is not None and time >= now:
                self._close(place, side, now, pending, joined)
            other, (back, ahead) = 1 - side, self._reach[side]
            found = near[other](key, expired[other] + 1, time - back, time + ahead)
            if found:
                joined.together(place, side, value, time, found)
            if pending is not None:
                self._partners(place, side, key, value, found, max(time + ahead, 0) < now, pending, joined)
            if seen[side] < time <= newest:
                seen[side] = time
                expired[side] = self._sides[side].time.observe(time) - retention
            if time > expired[side]:
                keep[side](key, time, data)
                added[side].append(place)
            else:
                late += 1
        self._dropped(LATE, late)
        return added

    def _not_kept(self, place: int, side: int, value: Any, time: int, joined: Joined) -> None:
        """A row that cannot have a match."""
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
        """Rows that were found are no longer pending. A row that found none is, unless its window is already closed."""
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


class Joined:
    """The results, by column, each with the place of the row that made it."""

    def __init__(self, chunk: Chunk, joiner: KeyedJoiner, sides: tuple[StreamSide, StreamSide]) -> None:
        self._chunk = chunk
        self._joiner = joiner
        self._decode = sides[LEFT].value.decode, sides[RIGHT].value.decode
        self._places: list[int] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._times: list[int] = []

    def key(self, place: int) -> Any:
        return self._chunk.keys[place]

    def time(self, place: int) -> int:
        return self._chunk.timestamps[place]

    def together(self, place: int, side: int, value: Any, time: int, found: list[Timed]) -> None:
        key, joiner, decode = self._chunk.keys[place], self._joiner, self._decode[1 - side]
        last = found[-1]
        for row in found:
            own = value if row is last else private(value)
            other_time, other = row[0], decode(row[1])
            self._values.append(joiner(key, own, other) if side == LEFT else joiner(key, other, own))
            self._places.append(place)
            self._keys.append(key)
            self._times.append(time if time > other_time else other_time)

    def alone(self, place: int, side: int, key: Any, value: Any, time: int) -> None:
        left, right = (None, private(value)) if side == RIGHT else (private(value), None)
        try:
            self._values.append(self._joiner(key, left, right))
        except faults() as error:
            if not noted_row(None, key, value, error):
                raise
            return
        self._places.append(place)
        self._keys.append(key)
        self._times.append(time)

    def chunk(self) -> Chunk:
        values = unshared(self._values)
        return self._chunk.emit(self._places, self._keys, values).with_rows(values, self._times)
