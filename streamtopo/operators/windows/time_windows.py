"""Aggregations in aligned windows: tumbling, hopping and unlimited ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from operator import sub
from typing import Any

from streamtopo.errors import faults
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.adders import Adders
from streamtopo.operators.tables.aggregate import latest
from streamtopo.operators.tables.conversions import keyed
from streamtopo.operators.windows.closing import Closing, each_update_counts
from streamtopo.operators.windows.shared import (
    Aggregation,
    KeyTimes,
    Late,
    StreamTime,
    expire,
    inner_identities,
    late_rows,
)
from streamtopo.records import NOTHING, Chunk, private, unshared
from streamtopo.row_calls import noted_halfway
from streamtopo.stores.rows.state import State
from streamtopo.topology.operator import Bindings
from streamtopo.windows import AlignedWindows, Placed, windowed


def time_windows(
    windows: AlignedWindows,
    aggregation: Aggregation,
    state: State,
    bindings: Bindings,
    *,
    on_late: bool = False,
    on_close: bool = False,
) -> Keeping:
    """With `on_close` rows are forwarded only when their window closes."""
    closing = Closing(windows, state, bindings) if on_close else None
    late = Late(bindings.count, to_topic=on_late)
    stream_time = StreamTime(bindings, state.spec.name, len(aggregation.adds))
    key_times = KeyTimes(bindings, state.spec.name)
    adders = Adders(aggregation.adds)

    def step(chunk: Chunk) -> tuple[Chunk, Chunk]:
        chunk = keyed(chunk, bindings.count)
        if not len(chunk):
            return NOTHING, NOTHING
        expire(state, key_times.newest.time, len(chunk))
        times, seen = stream_time.see(chunk)
        placed = windows.place(chunk.timestamps)
        open_, missed = _in_time(windows, placed, times)
        late.count(len(missed))
        kept: list[bool] | None = None
        if len(aggregation.adds) == 1:
            key_times.put_all(open_.starts, stream_time.seen)
        else:
            kept = _put_one_by_one(key_times, open_.starts, [seen[p] for p in open_.places], state.spec.retention)
        if aggregation.counts and not each_update_counts(state, on_close=on_close):
            updates = _count_together(windows, state, chunk, open_)
        else:
            updates = _add_each(windows, aggregation.init, adders, state, chunk, open_, kept)
        if closing is not None:
            updates = closing.closed(chunk, times)
        found = set(open_.places) if missed else ()
        return updates, late_rows(chunk, _once(missed, found), wanted=late.to_topic)

    def advance(moment: Chunk) -> Chunk:
        stream_time.advance(moment.timestamps[0])
        return NOTHING if closing is None else closing.closed(moment, moment.timestamps)

    return late.keeping(step, state, advance, stream_time)


def _put_one_by_one(key_times: KeyTimes, starts: list[int], seen: list[int], retention: int) -> list[bool]:
    """Whether the store keeps the row of each of these windows, or the row is already expired.

    Each stream of a cogroup closes windows by its own time, and one may be far behind the others.
    """
    kept = []
    for start, until_then in zip(starts, seen, strict=True):
        key_times.put(start, until_then)
        kept.append(not retention or start > key_times.newest.time - retention)
    return kept


def _in_time(windows: AlignedWindows, placed: Placed, times: list[int]) -> tuple[Placed, list[int]]:
    """The records in windows that are still open, and the places of late ones, once for each closed window."""
    if windows.after_end is None or not placed.starts:
        return placed, []
    lasting = windows.length + windows.after_end
    if min(map(sub, placed.starts, _at(placed.places, times))) + lasting > 0:
        return placed, []
    pairs = [(place, start) for place, start in zip(*placed, strict=True) if start + lasting > times[place]]
    missed = Counter(placed.places) - Counter(place for place, _ in pairs)
    return Placed([place for place, _ in pairs], [start for _, start in pairs]), sorted(missed.elements())


def _once(missed: list[int], found: Any) -> list[int]:
    return [place for place in dict.fromkeys(missed) if place not in found]


def _keys(windows: AlignedWindows, keys: list[Any], starts: list[int]) -> list[Any]:
    return list(map(windowed, zip(keys, starts, windows.ends(starts), strict=True)))


def _count_together(windows: AlignedWindows, state: State, chunk: Chunk, placed: Placed) -> Chunk:
    """Count all records of a window at once, if only its last count is seen. Updates are ordered by last record."""
    inner, times = inner_identities(state, chunk.keys), chunk.timestamps
    counted: list[tuple[int, int, int, int]] = []
    """For each row to change: the place of its last record, the start, the number of records, the latest time."""
    for start, places in _by_start(placed).items():
        keys = _at(places, inner)
        more, last = Counter(keys), dict(zip(keys, range(len(keys)), strict=True)).values()
        newest = latest(keys, _at(places, times), last)
        counted += zip([places[row] for row in last], repeat(start), more.values(), newest, strict=False)
    counted.sort()
    places = [row[0] for row in counted]
    keys = _keys(windows, [chunk.keys[place] for place in places], [row[1] for row in counted])
    index = state.index(keys)
    rows = state.load(index)
    for key, (_, _, added, time) in zip(index, counted, strict=True):
        row = rows[key]
        rows[key] = (added, time) if row is None else (row[0] + added, time if time > row[1] else row[1])
    return state.changed(index, chunk.emit(places, keys, [None] * len(keys)))


def _by_start(placed: Placed) -> dict[int, list[int]]:
    """The places of the rows in each window, in order."""
    places, starts = placed
    if not starts or min(starts) == max(starts):
        return {starts[0]: places} if starts else {}
    found: dict[int, list[int]] = {start: [] for start in set(starts)}
    for place, start in zip(places, starts, strict=True):
        found[start].append(place)
    return found


def _at(places: list[int], column: list[Any]) -> list[Any]:
    return column if len(places) == len(column) else [column[place] for place in places]


def _add_each(
    windows: AlignedWindows,
    init: Callable[[], Any],
    adders: Adders,
    state: State,
    chunk: Chunk,
    placed: Placed,
    kept_rows: list[bool] | None,
) -> Chunk:
    """A row that is not kept starts again with each record. None: all are kept."""
    places = placed.places
    keys = _keys(windows, [chunk.keys[place] for place in places], placed.starts)
    updates = chunk.emit(places, keys, unshared([chunk.values[place] for place in places]))
    sides = chunk.sides and [chunk.sides[place] for place in places]
    index = state.index(keys)
    rows = state.load(index)
    snapshot = state.snapshot
    values: list[Any] = []
    times: list[int] = []
    adds = adders.of(sides)
    columns = zip(index, keys, updates.values, updates.timestamps, adds, kept_rows or repeat(True), strict=False)
    for kept, (key, *_), value, time, add, is_kept in columns:
        row = rows[kept] if is_kept else None
        try:
            if row is None:
                new = add(key, value, private(init()))
            else:
                new = add(key, value, row[0])
                time = max(time, row[1])
        except faults() as error:
            if not noted_halfway(updates, len(values), error):
                raise
            new = None
        if is_kept:
            rows[kept] = None if new is None else (new, time)
        values.append(snapshot(new))
        times.append(time)
    return state.changed_where(kept_rows, index, replace(updates, values=values, timestamps=times))
