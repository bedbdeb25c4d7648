"""Aggregations in session windows: a record merges the sessions that it reaches."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable
from dataclasses import replace
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any

from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.adders import Adders
from streamtopo.operators.tables.conversions import keyed
from streamtopo.operators.windows.closing import ForwardedUntil, each_update_counts, final_rows
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
from streamtopo.windows import SessionWindows, Windowed, windowed

_MANY = 8
"""With more sessions of one key than this, expired ones are removed from memory."""


def by_end(session: Windowed) -> tuple[int, int]:
    """The order in which sessions of one key are merged: that of the store."""
    return session[2], session[1]


class Sessions:
    """The step of one task."""

    def __init__(
        self,
        windows: SessionWindows,
        aggregation: Aggregation,
        state: State,
        bindings: Bindings,
        *,
        late: Late,
        on_close: bool,
    ) -> None:
        self._gap, self._after_end = windows.gap, windows.after_end
        self._aggregation, self._state, self._late = aggregation, state, late
        self._adders = Adders(aggregation.adds)
        self._dropped = bindings.count
        self.stream_time = StreamTime(bindings, state.spec.name, len(aggregation.adds))
        self._key_times = KeyTimes(bindings, state.spec.name)
        self._open = OpenWindows(state, self._key_times.newest, self._key_times.latest, by_end)
        self._entry = entry_of(state)
        self._closing = ClosingSessions(state, bindings, windows.after_end) if on_close else None

    def step(self, chunk: Chunk) -> tuple[Chunk, Chunk]:
        chunk = keyed(chunk, self._dropped)
        if not len(chunk):
            return NOTHING, NOTHING
        expire(self._state, self._key_times.newest.time, len(chunk))
        times, seen = self.stream_time.see(chunk)
        if self._closing is not None:
            self._closing.begin(times[-1])
        updates, late = self._take(chunk, times, seen)
        self._late.count(len(late))
        passed_on = updates.put(self._state, chunk)
        if self._closing is not None:
            passed_on = self._closing.rows(chunk)
        return passed_on, late_rows(chunk, late, wanted=self._late.to_topic)

    def advance(self, moment: Chunk) -> Chunk:
        (now,) = moment.timestamps
        self.stream_time.advance(now)
        if self._closing is None:
            return NOTHING
        self._closing.begin(now)
        self._closing.close(
            0, now, SessionUpdates(self._state.look(()), self._aggregation, private, self._entry, each=False)
        )
        return self._closing.rows(moment)

    def _take(self, chunk: Chunk, times: list[int], seen: list[int]) -> tuple[SessionUpdates, list[int]]:
        """Add each record to its session. Returns the places of late records, too."""
        inner = inner_identities(self._state, chunk.keys)
        sessions_of, entry = self._open.of(inner), self._entry
        rows = self._state.load(self._reached(inner, chunk.timestamps, sessions_of))
        each = each_update_counts(self._state, on_close=self._closing is not None)
        updates, late = SessionUpdates(rows, self._aggregation, self._state.snapshot, entry, each=each), []
        gap, after_end, kept_for, newest = (
            self._gap,
            self._after_end,
            self._state.spec.retention,
            self._key_times.newest,
        )
        adders = self._adders.of(chunk.sides)
        columns = zip(chunk.keys, inner, chunk.values, chunk.timestamps, times, seen, adders, strict=False)
        for place, (key, identity, value, time, now, latest, add) in enumerate(columns):
            sessions = sessions_of[identity]
            gone = newest.time - kept_for
            merged = _near(sessions, time, gap, gone) if sessions and sessions[-1][2] >= time - gap else []
            session = _spanning(key, merged, time) if merged else windowed((key, time, time))
            end = session[2]
            if end < now - after_end:
                late.append(place)
            elif end <= gone and self._closing is None:
                updates.pass_on(place, session, value, add)
            else:
                updates.merge(place, session, merged, sessions, value, add)
                if end > newest.time:
                    self._key_times.put(end, latest)
                if self._closing is not None:
                    self._closing.opened(session, entry(session))
            if self._closing is not None:
                self._closing.close(place, now, updates)
            if len(sessions) > _MANY and sessions[0][2] <= gone:
                sessions[:] = [session for session in sessions if session[2] > gone]
        return updates, late

    def _reached(
        self, inner: list[Hashable], times: list[int], sessions_of: dict[Hashable, list[Windowed]]
    ) -> list[Any]:
        """The entries of the sessions that one of these rows may join."""
        earliest, entry = min(times) - self._gap, self._entry
        return [entry(session) for key in set(inner) for session in sessions_of[key] if session[2] >= earliest]


def _near(sessions: list[Windowed], time: int, gap: int, gone: int) -> list[Windowed]:
    """The sessions within the gap of this time that are not expired.

    Sessions are sorted by their ends, and nearly always only the last one is near.
    """
    earliest, latest = time - gap if time - gap > gone else gone + 1, time + gap
    near = []
    for session in reversed(sessions):
        if session[2] < earliest:
            break
        if session[1] <= latest:
            near.append(session)
    return near[::-1]


def _spanning(key: Any, sessions: list[Windowed], time: int) -> Windowed:
    """The session that a record at this time and these sessions are merged into."""
    if not sessions:
        return windowed((key, time, time))
    _, start, end = sessions[-1]
    if len(sessions) > 1:
        start = min([start for _, start, _ in sessions])
    if time < start:
        return windowed((key, time, end))
    return windowed((key, start, time if time > end else end))


class SessionUpdates:
    """What one chunk changes: each update if all of them are seen, otherwise only the last one of each session."""

    def __init__(
        self,
        rows: dict[Any, Row | None],
        aggregation: Aggregation,
        snapshot: Callable[[Any], Any],
        entry: Callable[[Any], Any],
        *,
        each: bool,
    ) -> None:
        assert aggregation.merge is not None
        self._rows = rows
        self._init, self._merge, self._snapshot, self._entry = aggregation.init, aggregation.merge, snapshot, entry
        self._each, self._counts = each, aggregation.counts
        self._new: dict[Any, Row | None] = {}
        self._last: dict[Any, tuple[int, Windowed]] = {}
        self._all: list[tuple[int, Windowed, Any]] = []
        """The place in the chunk, the session, and its new value, in order."""
        self._expired: set[int] = set()
        """Places of records whose sessions are too old to be kept."""

    def row(self, kept: Any) -> Row | None:
        """None for a session that was merged into another one, so none of its rows may be left."""
        return self._new[kept] if kept in self._new else self._rows.get(kept)

    def merge(
        self, place: int, session: Windowed, merged: list[Windowed], sessions: list[Windowed], value: Any, add: Any
    ) -> None:
        """Replace the merged sessions with this one. They are deleted first, unless this is the only one."""
        entry = self._entry
        key, start, end = session
        row = 0 if self._counts else private(self._init())
        for old in merged:
            before = self._removed(place, entry(old), old, noted=start != end)
            row = row + before[0] if self._counts else self._merge(key, row, before[0])
            if sessions[-1] is old:
                sessions.pop()
            else:
                sessions.remove(old)
        row = row + 1 if self._counts else add(key, value, row)
        kept = entry(session)
        self._new[kept] = None if row is None else (row, end)
        if self._each:
            self._all.append((place, session, self._snapshot(row)))
        else:
            self._last[kept] = place, session
        if row is None:
            return
        if sessions and sessions[-1][2] >= end:
            insort(sessions, session, key=by_end)
        else:
            sessions.append(session)

    def pass_on(self, place: int, session: Windowed, value: Any, add: Any) -> None:
        """Forward a session that is too old to be kept. It has only this record."""
        self._expired.add(place)
        self._all.append((place, session, self._snapshot(add(session[0], value, private(self._init())))))

    def _removed(self, place: int, kept: Any, session: Windowed, *, noted: bool) -> Row:
        """Remove a session and return its row. If it began in this chunk, no update of it is seen."""
        new, rows = self._new, self._rows
        row = new.pop(kept) if kept in new else rows[kept]
        if self._each:
            new[kept] = None
            if noted:
                self._all.append((place, session, None))
        elif kept in rows:
            new[kept] = None
            self._last[kept] = place, session
        else:
            del self._last[kept]
        return row  # type: ignore[return-value]

    def put(self, state: State, chunk: Chunk) -> Chunk:
        """Put them into the state. Returns what to forward now. Sessions are not records, so there are no headers."""
        if not self._each:
            self._all += [(place, session, None) for place, session in self._last.values()]
            self._all.sort(key=itemgetter(0))
        state.load_also(self._new)
        self._rows.update(self._new)
        sessions = [session for _, session, _ in self._all]
        updates = chunk.emit([place for place, _, _ in self._all], sessions, [value for _, _, value in self._all])
        updates = replace(updates, timestamps=[end for _, _, end in sessions], headers=None)
        kept = [place not in self._expired for place, _, _ in self._all] if self._expired else None
        return state.changed_where(kept, state.index(sessions), updates)


class ClosingSessions:
    """Forwards each session when it closes, in order of end, start, and the bytes of the key."""

    def __init__(self, state: State, bindings: Bindings, after_end: int) -> None:
        self._state = state
        self._after_end = after_end
        self._forwarded_until = ForwardedUntil(bindings, state.spec.name, after_end)
        self._now = -1
        """The last time at which sessions were closed. Most rows have no later time, and need no look."""

    def begin(self, time: int) -> None:
        """Before a chunk that ends at this time: collect the sessions that may close in it."""
        self._until = time - self._after_end
        self._due: list[tuple[bytes, Hashable, Windowed]] = []
        self._places: list[int] = []
        self._sessions: list[Windowed] = []
        self._rows: list[Row] = []
        for kept, _ in self._state.ordered.by_time(self._forwarded_until.end, self._until):
            self._due.append(self._waiting(kept))
        heapify(self._due)

    def opened(self, session: Windowed, kept: Hashable) -> None:
        if session[2] < self._until and session[2] >= self._forwarded_until.end:
            heappush(self._due, self._waiting(kept))

    def close(self, place: int, now: int, updates: SessionUpdates) -> None:
        """Close the sessions that the row at this place closes."""
        if now <= self._now:
            return
        self._now = now
        self._forwarded_until.reach(now)
        before = None
        while self._due and self._due[0][2][2] < now - self._after_end:
            _, kept, session = heappop(self._due)
            row = updates.row(kept)
            if row is not None and kept != before:
                self._places.append(place)
                self._sessions.append(session)
                self._rows.append((self._state.snapshot(row[0]), row[1]))
            before = kept

    def rows(self, chunk: Chunk) -> Chunk:
        rows = [(value, session[2]) for (value, _), session in zip(self._rows, self._sessions, strict=True)]
        return final_rows(chunk, self._places, self._sessions, rows)

    def _waiting(self, kept: Any) -> tuple[bytes, Hashable, Windowed]:
        serde = self._state.spec.key
        data = serde.encode(kept) if serde.exact else kept
        return data[-16:] + data[:-16], kept, kept if serde.exact else serde.decode(data)


def session_windows(
    windows: SessionWindows,
    aggregation: Aggregation,
    state: State,
    bindings: Bindings,
    *,
    on_late: bool = False,
    on_close: bool = False,
) -> Keeping:
    late = Late(bindings.count, to_topic=on_late)
    sessions = Sessions(windows, aggregation, state, bindings, late=late, on_close=on_close)
    return late.keeping(sessions.step, state, sessions.advance, sessions.stream_time)
