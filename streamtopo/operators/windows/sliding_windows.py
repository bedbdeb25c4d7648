"""Aggregations in sliding windows. A record makes two: one ends at the record, one starts right after it."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, NamedTuple

from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.adders import Add, Adders
from streamtopo.operators.tables.aggregate import without_nulls
from streamtopo.operators.windows.closing import Closing
from streamtopo.operators.windows.open_windows import OpenWindows
from streamtopo.operators.windows.shared import (
    Aggregation,
    KeyTimes,
    Late,
    StreamTime,
    entry_of,
    expire,
    inner_identities,
    late_rows,
)
from streamtopo.records import NOTHING, Chunk, private
from streamtopo.stores.rows.state import Row, State
from streamtopo.topology.operator import Bindings
from streamtopo.windows import SlidingWindows, Windowed


def by_start(window: Windowed) -> int:
    return window[1]


class Arrival(NamedTuple):
    """A record, and the windows that its key has."""

    place: int
    key: Any
    value: Any
    time: int
    add: Add
    closed: int
    """Windows that end before this time are closed."""
    seen: int
    """The latest time of a record so far."""
    windows: list[Windowed]
    """The windows of the key, by start."""


class Met(NamedTuple):
    """What a record finds among the windows of its key."""

    left: bool = False
    """Whether the window that ends at the record exists."""
    before: Row | None = None
    """The row of the last window that ends before the record."""
    right: Row | None = None
    """The row of the latest window that includes the record and ends after it."""
    previous: int | None = None
    """The time of the last record before this one."""


class Updates:
    """The rows of windows that the records of a chunk change, and the updates that they make."""

    def __init__(self, rows: dict[Any, Row | None]) -> None:
        self.rows = rows
        self._places: list[int] = []
        self._windows: list[Windowed] = []
        self._values: list[Any] = []
        self._times: list[int] = []
        self._kept: list[bool] = []

    def add(self, place: int, window: Windowed, value: Any, time: int, *, is_kept: bool) -> None:
        self._places.append(place)
        self._windows.append(window)
        self._values.append(value)
        self._times.append(time)
        self._kept.append(is_kept)

    def put(self, state: State, chunk: Chunk) -> Chunk:
        """Put them into the state. Returns what to forward now."""
        updates = chunk.emit(self._places, self._windows, self._values).with_rows(self._values, self._times)
        return state.changed_where(self._kept, state.index(self._windows), updates)


class Sliding:
    """The step of one task. Which windows a record makes, and their first rows, are as in Kafka Streams."""

    def __init__(
        self,
        windows: SlidingWindows,
        aggregation: Aggregation,
        state: State,
        bindings: Bindings,
        late: Late,
        closing: Closing | None,
    ) -> None:
        self._length, self._grace = windows.difference, windows.grace
        self._aggregation = aggregation
        self._adders = Adders(aggregation.adds)
        self._state, self._dropped, self._late, self._closing = state, bindings.count, late, closing
        self.stream_time = StreamTime(bindings, state.spec.name, len(aggregation.adds))
        self._key_times = KeyTimes(bindings, state.spec.name)
        self._open = OpenWindows(state, self._key_times.newest, self._key_times.latest, by_start)
        self._entry = entry_of(state)
        self._updates = Updates({})

    def step(self, chunk: Chunk) -> tuple[Chunk, Chunk]:
        chunk = without_nulls(chunk, self._dropped)
        if not len(chunk):
            return NOTHING, NOTHING
        expire(self._state, self._key_times.newest.time, len(chunk))
        times, seen = self.stream_time.see(chunk)
        inner = inner_identities(self._state, chunk.keys)
        windows = self._open.of(inner)
        self._updates = Updates(
            self._state.load([self._entry(window) for key in set(inner) for window in windows[key]])
        )
        late = []
        adders = self._adders.of(chunk.sides)
        columns = zip(chunk.keys, inner, chunk.values, chunk.timestamps, times, seen, adders, strict=False)
        for place, (key, identity, value, time, now, latest, add) in enumerate(columns):
            closed = now - self._grace
            if time + self._length < closed:
                late.append(place)
                self._late.count(1)
            else:
                self._forget(windows[identity])
                self._take(Arrival(place, key, value, time, add, closed, latest, windows[identity]))
        passed_on = self._updates.put(self._state, chunk)
        if self._closing is not None:
            passed_on = self._closing.closed(chunk, times)
        return passed_on, late_rows(chunk, late, wanted=self._late.to_topic)

    def advance(self, moment: Chunk) -> Chunk:
        self.stream_time.advance(moment.timestamps[0])
        return NOTHING if self._closing is None else self._closing.closed(moment, moment.timestamps)

    def _forget(self, windows: list[Windowed]) -> None:
        """Remove expired windows from memory."""
        gone = self._key_times.newest.time - self._state.spec.retention
        if windows and windows[0][1] <= gone:
            windows[:] = [window for window in windows if window[1] > gone]

    def _take(self, record: Arrival) -> None:
        if record.time < self._length:
            self._take_early(record)
            return
        time, length = record.time, self._length
        found = self._between(record.windows, time - 2 * length, time + 1)
        met = self._update_found(record, found)
        if met is None:
            return
        starts = {window[1] for window in found}
        if met.previous is not None and met.previous + 1 not in starts and met.previous + 1 + length >= time:
            self._update(record, self._window(record, met.previous + 1), None)
        if not met.left:
            reaches = met.previous is not None and time - length <= met.previous
            self._update(record, self._window(record, time - length), met.before if reaches else None)
        if time + 1 not in starts and met.right is not None and met.right[1] > time:
            self._copy(record, met.right)

    def _update_found(self, record: Arrival, found: list[Windowed]) -> Met | None:
        """Update windows from the latest one back to the last one before the record. None if no new ones are needed."""
        met = Met()
        for window in reversed(found):
            row, end = self._row(window), window[1] + self._length
            if window[1] > record.time:
                continue
            if end < record.time:
                return met._replace(before=row, previous=row[1])
            self._update(record, window, row)
            if end > record.time:
                met = met._replace(right=met.right or row)
            elif row[1] < record.time:
                met = met._replace(left=True, previous=row[1])
            else:
                return None
        return met

    def _take_early(self, record: Arrival) -> None:
        """Records earlier than the difference share the first window, [0, difference]."""
        time = record.time
        shared = right = previous = None
        found = self._between(record.windows, 0, time + 1)
        for window in found:
            row = self._row(window)
            if window[1] == 0:
                shared = row
                previous = row[1] if row[1] < time else None
            elif window[1] <= time:
                right = row
                self._update(record, window, row)
        starts = {window[1] for window in found}
        if right is None and shared is not None and shared[1] > time:
            right = shared
        if time + 1 not in starts and right is not None and right[1] > time:
            self._copy(record, right)
        if previous is not None and previous + 1 not in starts:
            self._update(record, self._window(record, previous + 1), None)
        self._update(record, self._window(record, 0), shared)

    def _between(self, windows: list[Windowed], first: int, last: int) -> list[Windowed]:
        """The windows that start in [first, last]."""
        return windows[bisect_left(windows, first, key=by_start) : bisect_left(windows, last + 1, key=by_start)]

    def _window(self, record: Arrival, start: int) -> Windowed:
        return Windowed(record.key, start, start + self._length)

    def _row(self, window: Windowed) -> Row:
        """The row of a window that exists."""
        row = self._updates.rows[self._entry(window)]
        assert row is not None
        return row

    def _update(self, record: Arrival, window: Windowed, row: Row | None) -> None:
        """Add the record to a window with this row, or to a new one."""
        if window[2] < record.closed:
            self._late.count(1)
            return
        value, time = (private(self._aggregation.init()), record.time) if row is None else (private(row[0]), row[1])
        self._put(record, window, record.add(record.key, private(record.value), value), max(time, record.time))

    def _copy(self, record: Arrival, row: Row) -> None:
        """The window that starts right after the record begins with a copy of this row."""
        self._put(record, self._window(record, record.time + 1), private(row[0]), row[1])

    def _put(self, record: Arrival, window: Windowed, value: Any, time: int) -> None:
        if window[1] > self._key_times.newest.time:
            self._key_times.put(window[1], record.seen)
        is_kept = window[1] > self._key_times.newest.time - self._state.spec.retention or self._closing is not None
        if is_kept:
            self._keep(record, window, None if value is None else (value, time))
        self._updates.add(record.place, window, self._state.snapshot(value), time, is_kept=is_kept)

    def _keep(self, record: Arrival, window: Windowed, row: Row | None) -> None:
        kept, rows = self._entry(window), self._updates.rows
        if kept not in rows or rows[kept] is None:
            self._state.load_also((kept,))
            if row is not None:
                insort(record.windows, window, key=by_start)
        elif row is None:
            record.windows.remove(window)
        rows[kept] = row


def sliding_windows(
    windows: SlidingWindows,
    aggregation: Aggregation,
    state: State,
    bindings: Bindings,
    *,
    on_late: bool = False,
    on_close: bool = False,
) -> Keeping:
    closing = Closing(windows, state, bindings) if on_close else None
    late = Late(bindings.count, to_topic=on_late)
    sliding = Sliding(windows, aggregation, state, bindings, late, closing)
    return late.keeping(sliding.step, state, sliding.advance, sliding.stream_time)
