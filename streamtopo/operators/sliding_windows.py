"""Aggregations in sliding windows, which records make: one that ends at each record, one that starts right after it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, NamedTuple

from streamtopo.operators.aggregate import Add, adders_of, without_nulls
from streamtopo.operators.closing import Closing
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.open_windows import OpenWindows
from streamtopo.operators.windowed import Aggregation, Extreme, Late, Progress, expire, identities, late_rows
from streamtopo.records import NOTHING, Chunk, private
from streamtopo.stores.state import Row, State
from streamtopo.topology import Bindings
from streamtopo.windows import SlidingWindows, Windowed


def by_start(window: Windowed) -> int:
    return window[1]


class Arrival(NamedTuple):
    """A record, and what it meets."""

    place: int
    key: Any
    value: Any
    time: int
    add: Add
    closed: int
    """Windows that end before this are closed."""
    windows: list[Windowed]
    """Those of the key, by start."""


class Met(NamedTuple):
    """What a record finds of its key."""

    left: bool = False
    """The window that ends at the record is there."""
    before: Row | None = None
    """Of the last window that ends before the record."""
    right: Row | None = None
    """Of the latest window that holds the record, and goes on after it."""
    previous: int | None = None
    """When the last record before this one was."""


class Sliding:
    """The step of one task. Which windows a record makes, and what they start with, is as Kafka Streams has it."""

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
        self._state, self._dropped, self._late, self._closing = state, bindings.count, late, closing
        self._progress = Progress(bindings, state.spec.name, len(aggregation.adds))
        self._extreme = Extreme(bindings, state.spec.name)
        self._open = OpenWindows(state, self._extreme.newest, self._extreme.latest, by_start)
        exact = state.spec.key.exact
        self._entry: Callable[[Any], Any] = _as_it_is if exact else state.spec.key.encode
        self._begin({})

    def step(self, chunk: Chunk) -> tuple[Chunk, Chunk]:
        chunk = without_nulls(chunk, self._dropped)
        if not len(chunk):
            return NOTHING, NOTHING
        expire(self._state, self._extreme.newest.time, len(chunk))
        times = self._progress.times(chunk)
        inner = identities(self._state, chunk.keys)
        windows = self._open.of(inner)
        self._begin(self._state.load([self._entry(window) for key in set(inner) for window in windows[key]]))
        late = []
        adders = adders_of(self._aggregation.adds, chunk.sides)
        columns = zip(chunk.keys, inner, chunk.values, chunk.timestamps, times, adders, strict=False)
        for place, (key, identity, value, time, now, add) in enumerate(columns):
            closed = now - self._grace
            if time + self._length < closed:
                late.append(place)
                self._late.count(1)
            else:
                self._forget(windows[identity])
                self._take(Arrival(place, key, value, time, add, closed, windows[identity]))
        passed_on = self._state.changed(self._state.index(self._keys), self._updates(chunk))
        if self._closing is not None:
            passed_on = self._closing.closed(chunk, times)
        return passed_on, late_rows(chunk, late, wanted=self._late.handed_on)

    def advance(self, moment: Chunk) -> Chunk:
        self._progress.advance(moment.timestamps[0])
        return NOTHING if self._closing is None else self._closing.closed(moment, moment.timestamps)

    def _begin(self, rows: dict[Any, Row | None]) -> None:
        self._rows = rows
        self._places: list[int] = []
        self._keys: list[Windowed] = []
        self._values: list[Any] = []
        self._times: list[int] = []

    def _updates(self, chunk: Chunk) -> Chunk:
        return chunk.emit(self._places, self._keys, self._values).with_rows(self._values, self._times)

    def _forget(self, windows: list[Windowed]) -> None:
        """Windows that are too old to be kept."""
        gone = self._extreme.newest.time - self._state.spec.retention
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
        """From the latest window back to the last one before the record; None where the record makes no new ones."""
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
        """Those that start from `first` to `last`."""
        return windows[bisect_left(windows, first, key=by_start) : bisect_left(windows, last + 1, key=by_start)]

    def _window(self, record: Arrival, start: int) -> Windowed:
        return Windowed(record.key, start, start + self._length)

    def _row(self, window: Windowed) -> Row:
        """As it was when the record came."""
        row = self._rows[self._entry(window)]
        assert row is not None
        return row

    def _update(self, record: Arrival, window: Windowed, row: Row | None) -> None:
        """Add the record to a window, which goes on from this row, or is new."""
        if window[2] < record.closed:
            self._late.count(1)
            return
        value, time = (private(self._aggregation.init()), record.time) if row is None else (private(row[0]), row[1])
        self._put(record, window, record.add(record.key, private(record.value), value), max(time, record.time))

    def _copy(self, record: Arrival, row: Row) -> None:
        """The window right of the record starts with what is there already."""
        self._put(record, self._window(record, record.time + 1), private(row[0]), row[1])

    def _put(self, record: Arrival, window: Windowed, value: Any, time: int) -> None:
        kept = self._entry(window)
        if kept not in self._rows or self._rows[kept] is None:
            self._state.absent((kept,))
            if value is not None:
                insort(record.windows, window, key=by_start)
        elif value is None:
            record.windows.remove(window)
        self._rows[kept] = None if value is None else (value, time)
        if window[1] > self._extreme.newest.time:
            self._extreme.put(window[1], record.closed + self._grace)
        self._places.append(record.place)
        self._keys.append(window)
        self._values.append(self._state.snapshot(value))
        self._times.append(time)


def sliding_windows(
    windows: SlidingWindows,
    aggregation: Aggregation,
    state: State,
    bindings: Bindings,
    *,
    on_late: bool = False,
    closing: Closing | None = None,
) -> Keeping:
    late = Late(bindings.count, handed_on=on_late)
    sliding = Sliding(windows, aggregation, state, bindings, late, closing)
    return late.keeping(sliding.step, state, sliding.advance)


def _as_it_is(key: Any) -> Any:
    return key
