"""Aggregations in tumbling, hopping and unlimited windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat
from operator import sub
from typing import Any, NamedTuple

from streamtopo.operators.aggregate import adders_of, latest
from streamtopo.operators.closing import Closing
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables import keyed
from streamtopo.operators.windowed import Aggregation, Extreme, Late, Progress, expire, identities, late_rows
from streamtopo.records import NOTHING, Chunk, private, unshared
from streamtopo.stores.state import State
from streamtopo.topology import Bindings
from streamtopo.windows import FOREVER, TimeWindows, UnlimitedWindows, windowed


class Placed(NamedTuple):
    """Which windows rows belong to: in the order of rows, and for each by start."""

    places: list[int]
    starts: list[int]


def time_windows(
    windows: TimeWindows | UnlimitedWindows,
    aggregation: Aggregation,
    state: State,
    bindings: Bindings,
    *,
    on_late: bool = False,
    closing: Closing | None = None,
) -> Keeping:
    """With `closing` rows are handed on when their window closes, and not before."""
    late = Late(bindings.count, handed_on=on_late)
    progress = Progress(bindings, state.spec.name, len(aggregation.adds))
    extreme = Extreme(bindings, state.spec.name)

    def step(chunk: Chunk) -> tuple[Chunk, Chunk]:
        chunk = keyed(chunk, bindings.count)
        if not len(chunk):
            return NOTHING, NOTHING
        expire(state, extreme.newest.time, len(chunk))
        times = progress.times(chunk)
        placed = _placed(windows, chunk.timestamps)
        open_, missed = _in_time(windows, placed, times)
        late.count(len(missed))
        kept: Iterable[bool] = repeat(True)
        if len(aggregation.adds) == 1:
            extreme.put_all(open_.starts, progress.time)
        else:
            kept = _put_one_by_one(extreme, open_.starts, [times[p] for p in open_.places], state.spec.retention)
        together = aggregation.counts and not state.watched and (closing is not None or not state.each_update)
        if together:
            updates = _count_together(windows, state, chunk, open_)
        else:
            updates = _add_each(windows, aggregation, state, chunk, open_, kept)
        if closing is not None:
            updates = closing.closed(chunk, times)
        found = set(open_.places) if missed else ()
        return updates, late_rows(chunk, _once(missed, found), wanted=late.handed_on)

    def advance(moment: Chunk) -> Chunk:
        progress.advance(moment.timestamps[0])
        return NOTHING if closing is None else closing.closed(moment, moment.timestamps)

    return late.keeping(step, state, advance)


def _put_one_by_one(extreme: Extreme, starts: list[int], times: list[int], retention: int) -> list[bool]:
    """For each of these windows whether the store keeps its row, deleted yet or not.

    Streams that are counted together close windows each by its own time, and one may be far behind the others.
    """
    kept = []
    for start, time in zip(starts, times, strict=True):
        extreme.put(start, time)
        kept.append(not retention or start > extreme.newest.time - retention)
    return kept


def _placed(windows: TimeWindows | UnlimitedWindows, timestamps: list[int]) -> Placed:
    if isinstance(windows, UnlimitedWindows):
        places = [place for place, time in enumerate(timestamps) if time >= windows.start]
        return Placed(places, [windows.start] * len(places))
    size, advance = windows.size, windows.advance
    if size == advance and min(timestamps) >= 0:
        return Placed(list(range(len(timestamps))), [time - time % size for time in timestamps])
    pairs = [
        (place, start)
        for place, time in enumerate(timestamps)
        for start in range(max(0, time - size + advance) // advance * advance, time + 1, advance)
    ]
    return Placed([place for place, _ in pairs], [start for _, start in pairs])


def _in_time(windows: TimeWindows | UnlimitedWindows, placed: Placed, times: list[int]) -> tuple[Placed, list[int]]:
    """What belongs to windows that are still open, and the places of what does not."""
    if isinstance(windows, UnlimitedWindows) or not placed.starts:
        return placed, []
    lasting = windows.size + windows.grace
    if min(map(sub, placed.starts, _at(placed.places, times))) + lasting > 0:
        return placed, []
    pairs = [(place, start) for place, start in zip(*placed, strict=True) if start + lasting > times[place]]
    missed = Counter(placed.places) - Counter(place for place, _ in pairs)
    return Placed([place for place, _ in pairs], [start for _, start in pairs]), sorted(missed.elements())


def _once(missed: list[int], found: Any) -> list[int]:
    return [place for place in dict.fromkeys(missed) if place not in found]


def _keys(windows: TimeWindows | UnlimitedWindows, keys: list[Any], starts: list[int]) -> list[Any]:
    if isinstance(windows, UnlimitedWindows):
        return list(map(windowed, zip(keys, starts, repeat(FOREVER))))
    size = windows.size
    return list(map(windowed, [(key, start, start + size) for key, start in zip(keys, starts, strict=True)]))


def _count_together(windows: TimeWindows | UnlimitedWindows, state: State, chunk: Chunk, placed: Placed) -> Chunk:
    """Where only each window's last count will be seen: once per window, in the order of their last records."""
    inner, times = identities(state, chunk.keys), chunk.timestamps
    counted: list[tuple[int, int, int, int]] = []
    """Of each row to change: the place of its last record, the window's start, how many more, the latest time."""
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
    """The places of the rows in each window, in their order."""
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
    windows: TimeWindows | UnlimitedWindows,
    aggregation: Aggregation,
    state: State,
    chunk: Chunk,
    placed: Placed,
    kept_rows: Iterable[bool],
) -> Chunk:
    places = placed.places
    keys = _keys(windows, [chunk.keys[place] for place in places], placed.starts)
    updates = chunk.emit(places, keys, unshared([chunk.values[place] for place in places]))
    sides = chunk.sides and [chunk.sides[place] for place in places]
    index = state.index(keys)
    rows = state.load(index)
    init, snapshot = aggregation.init, state.snapshot
    values, times = [], []
    adders = adders_of(aggregation.adds, sides)
    columns = zip(index, keys, updates.values, updates.timestamps, adders, kept_rows, strict=False)
    for kept, (key, *_), value, time, add, is_kept in columns:
        row = rows[kept] if is_kept else None
        if row is None:
            new = add(key, value, private(init()))
        else:
            new = add(key, value, row[0])
            time = max(time, row[1])
        rows[kept] = None if new is None else (new, time)
        values.append(snapshot(new))
        times.append(time)
    return state.changed(index, replace(updates, values=values, timestamps=times))
