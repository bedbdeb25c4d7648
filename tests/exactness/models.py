"""Each kind of window, defined as simply as possible: from all records so far, without chunks, stores or caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamtopo import Windowed


class Event(NamedTuple):
    key: str
    value: str
    time: int


Rows = dict[Windowed, str]
"""The values of a window's records, concatenated in order of arrival."""


def time_windows(events: list[Event], size: int, advance: int, grace: int) -> Rows:
    rows: Rows = {}
    now = -1
    for key, value, time in events:
        now = max(now, time)
        for start in range(0, time + 1, advance):
            if start <= time < start + size and start + size > now - grace:
                window = Windowed(key, start, start + size)
                rows[window] = rows.get(window, "") + value
    return rows


def session_windows(events: list[Event], gap: int, grace: int) -> Rows:
    """Treat sessions as sets of records: a new record merges with all in its reach, unless it is too late for them."""
    sessions: list[tuple[Windowed, str]] = []
    now = -1
    for key, value, time in events:
        before, now = now, max(now, time)
        near = [
            (session, row)
            for session, row in sessions
            if session.key == key
            and session.start <= time + gap
            and session.end >= time - gap
            and session.end > before - gap - grace
        ]
        start = min([time, *(session.start for session, _ in near)])
        end = max([time, *(session.end for session, _ in near)])
        if end < now - gap - grace:
            continue
        together = "".join(row for _, row in sorted(near, key=lambda one: (one[0].end, one[0].start)))
        sessions = [one for one in sessions if one not in near and one[0] != Windowed(key, start, end)]
        sessions.append((Windowed(key, start, end), together + value))
    return dict(sessions)


def sliding_windows(events: list[Event], difference: int) -> Rows:
    """Every possible set of records, for unlimited grace and times at which windows can start."""
    rows: Rows = {}
    for key in {event.key for event in events}:
        own = [event for event in events if event.key == key]
        starts = {event.time - difference for event in own} | {event.time + 1 for event in own}
        for start in starts:
            inside = [event for event in own if start <= event.time <= start + difference]
            ends = any(event.time == start + difference for event in inside)
            follows = any(event.time == start - 1 for event in own)
            if inside and (ends or follows):
                window = Windowed(key, start, start + difference)
                rows[window] = "".join(sorted(event.value for event in inside))
    return rows


Model = Callable[[list[Event]], Rows]
