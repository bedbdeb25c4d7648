"""Aggregations in session windows: a record joins the sessions within reach into one."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Any

from streamtopo.operators.aggregate import adders_of
from streamtopo.operators.closing import final_rows
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.open_windows import OpenWindows
from streamtopo.operators.tables import keyed
from streamtopo.operators.windowed import Aggregation, Late, Progress, expire, identities, late_rows
from streamtopo.records import NOTHING, Chunk, private
from streamtopo.stores.state import Row, State
from streamtopo.topology import Bindings
from streamtopo.windows import SessionWindows, Windowed


def by_end(session: Windowed) -> tuple[int, int]:
    """The order in which sessions of one key are merged: as they lie in the store."""
    return session[2], session[1]


@dataclass
class Updates:
    """Rows put, one after the other, each for the row of the chunk at its place."""

    places: list[int] = field(default_factory=list)
    sessions: list[Windowed] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def add(self, place: int, session: Windowed, value: Any) -> None:
        self.places.append(place)
        self.sessions.append(session)
        self.values.append(value)

    def chunk(self, chunk: Chunk) -> Chunk:
        """Without headers, which are of a record and not of a session."""
        updates = chunk.emit(self.places, self.sessions, self.values)
        return replace(updates, timestamps=[end for _, _, end in self.sessions], headers=None)


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
        assert aggregation.merge is not None
        self._gap, self._after_end = windows.gap, windows.after_end
        self._aggregation, self._merge = aggregation, aggregation.merge
        self._state, self._dropped, self._late = state, bindings.count, late
        self._progress = Progress(bindings, state.spec.name, len(aggregation.adds))
        self._newest = bindings.clock(f"{state.spec.name}/newest")
        self._open = OpenWindows(state, self._newest, by_end)
        self._entry = _as_it_is if state.spec.key.exact else state.spec.key.encode
        self._closing = ClosingSessions(state, bindings, windows.after_end) if on_close else None

    def step(self, chunk: Chunk) -> tuple[Chunk, Chunk]:
        chunk = keyed(chunk, self._dropped)
        if not len(chunk):
            return NOTHING, NOTHING
        expire(self._state, self._newest.time, len(chunk))
        times = self._progress.times(chunk)
        inner = identities(self._state, chunk.keys)
        sessions = self._open.of(inner)
        entry = self._entry
        rows = self._state.load([entry(session) for key in set(inner) for session in sessions[key]])
        closing = self._closing
        if closing is not None:
            closing.begin(times[-1])
        updates, late = Updates(), []
        adders = adders_of(self._aggregation.adds, chunk.sides)
        columns = zip(chunk.keys, inner, chunk.values, chunk.timestamps, times, adders, strict=False)
        for place, (key, identity, value, time, now, add) in enumerate(columns):
            merged = self._reached(sessions[identity], time)
            start, end = _span(merged, time)
            if end < now - self._after_end:
                late.append(place)
            else:
                session = Windowed(key, start, end)
                self._put(place, session, merged, sessions[identity], value, add, rows, updates)
            if closing is not None:
                closing.close(place, now, rows)
        self._late.count(len(late))
        index = self._state.index(updates.sessions)
        passed_on = self._state.changed(index, updates.chunk(chunk))
        if closing is not None:
            passed_on = closing.rows(chunk)
        return passed_on, late_rows(chunk, late, wanted=self._late.handed_on)

    def _reached(self, sessions: list[Windowed], time: int) -> list[Windowed]:
        """The sessions within the gap of this time; those that are too old to be kept are forgotten on the way."""
        gone = self._newest.time - self._state.spec.retention
        if sessions and sessions[0][2] <= gone:
            sessions[:] = [session for session in sessions if session[2] > gone]
        earliest, latest = time - self._gap, time + self._gap
        return [session for session in sessions if session[2] >= earliest and session[1] <= latest]

    def _put(
        self,
        place: int,
        session: Windowed,
        merged: list[Windowed],
        sessions: list[Windowed],
        value: Any,
        add: Any,
        rows: dict[Any, Row | None],
        updates: Updates,
    ) -> None:
        """The session in place of those it is merged from: these are deleted first, unless it is the only one."""
        entry, merge = self._entry, self._merge
        key, start, end = session
        row = private(self._aggregation.init())
        for old in merged:
            kept = entry(old)
            row = merge(key, row, rows[kept][0])  # type: ignore[index]
            sessions.remove(old)
            if start != end:
                rows[kept] = None
                updates.add(place, old, None)
        row = add(key, value, row)
        kept = entry(session)
        self._state.absent(kept)
        rows[kept] = None if row is None else (row, end)
        updates.add(place, session, self._state.snapshot(row))
        if row is not None:
            insort(sessions, session, key=by_end)
        if end > self._newest.time:
            self._newest.time = end
        if self._closing is not None:
            self._closing.opened(session, kept)


def _span(sessions: list[Windowed], time: int) -> tuple[int, int]:
    if not sessions:
        return time, time
    return min(time, *[start for _, start, _ in sessions]), max(time, sessions[-1][2])


class ClosingSessions:
    """Hands on each session when it closes: by end and start, and then by the key's bytes."""

    def __init__(self, state: State, bindings: Bindings, after_end: int) -> None:
        self._state = state
        self._after_end = after_end
        self._emitted = bindings.clock(f"{state.spec.name}/emitted")
        """The stream time up to which sessions were handed on."""

    def begin(self, time: int) -> None:
        """A chunk comes that leads up to this time: get all together that may close in it."""
        self._until = time - self._after_end
        self._due: list[tuple[bytes, Hashable, Windowed]] = []
        self._places: list[int] = []
        self._sessions: list[Windowed] = []
        self._rows: list[Row] = []
        for kept, _ in self._state.by_time(self._emitted.time - self._after_end, self._until):
            self._due.append(self._waiting(kept))
        heapify(self._due)

    def opened(self, session: Windowed, kept: Hashable) -> None:
        if session[2] < self._until:
            heappush(self._due, self._waiting(kept))

    def close(self, place: int, now: int, rows: dict[Any, Row | None]) -> None:
        """The sessions that this row closes."""
        if now <= self._emitted.time:
            return
        self._emitted.time = now
        before = None
        while self._due and self._due[0][2][2] < now - self._after_end:
            _, kept, session = heappop(self._due)
            row = rows[kept]
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
    late = Late(bindings.count, handed_on=on_late)
    sessions = Sessions(windows, aggregation, state, bindings, late=late, on_close=on_close)
    return late.keeping(sessions.step, state)


def _as_it_is(key: Any) -> Any:
    return key
