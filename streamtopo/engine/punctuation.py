"""Calls that processors asked for at intervals of stream time or of the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamtopo.errors import StreamtopoError
from streamtopo.processors import Clock

_NEVER = -1


@dataclass(eq=False)
class Schedule:
    """One call's timetable. Its name (the node, and which of its schedules) finds it again after a restart."""

    name: str
    node: str
    interval: int
    clock: Clock
    callback: Callable[[int], object]
    due: int
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def passed(self, now: int) -> None:
        """Called once, however many intervals went by; the next call stays on the grid."""
        self.due += self.interval * max(1, (now - self.due) // self.interval + 1)


class Punctuations:
    """A task's schedules; stream-time ones go on where they were when the task was committed."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        self._wall_clock = wall_clock
        self._schedules: list[Schedule] = []
        self._remembered: dict[str, int] = {}
        self.opening = False
        """Processors are being opened. What they schedule now they will schedule again, and is remembered by name."""

    def add(self, node: str, interval: int, clock: Clock, callback: Callable[[int], object]) -> Schedule:
        if interval <= 0:
            raise StreamtopoError(f'"{node}" schedules a call every {interval} ms; the interval must be above 0')
        if clock not in ("stream_time", "wall_clock"):
            raise StreamtopoError(f'"{node}" schedules a call on {clock!r}; give "stream_time" or "wall_clock"')
        name = f"{node}#{sum(one.node == node for one in self._schedules)}" if self.opening else ""
        due = self._remembered.get(name, 0 if clock == "stream_time" else self._wall_clock() + interval)
        schedule = Schedule(name, node, interval, clock, callback, due, cancelled=due == _NEVER)
        self._schedules = [one for one in self._schedules if one.name or not one.cancelled]
        self._schedules.append(schedule)
        return schedule

    def due(self, clock: Clock, now: int) -> Schedule | None:
        """The schedule that is to be called first, if any is due by now."""
        ready = [one for one in self._live(clock) if one.due <= now]
        return min(ready, key=lambda one: one.due, default=None)

    def skip(self, name: str, now: int) -> None:
        for one in self._schedules:
            if name and one.name == name:
                one.passed(now)

    def next_due(self, clock: Clock) -> int | None:
        return min((one.due for one in self._live(clock)), default=None)

    def timetable(self, *clocks: Clock) -> dict[str, int]:
        """When each on these clocks is due next."""
        remembered = {name: due for name, due in self._remembered.items() if not self._schedules}
        return remembered | {
            one.name: _NEVER if one.cancelled else one.due
            for one in self._schedules
            if one.name and one.clock in clocks
        }

    def recall(self, timetable: dict[str, int]) -> None:
        """What one input's position remembers; of several, the latest holds."""
        for name, due in timetable.items():
            known = self._remembered.get(name, due)
            self._remembered[name] = _NEVER if _NEVER in (due, known) else max(due, known)

    def restart(self, timetable: dict[str, int]) -> None:
        """Processors are made anew and will ask again; the same asks get the same timetable."""
        self._schedules = []
        self._remembered = dict(timetable)

    def _live(self, clock: Clock) -> Iterable[Schedule]:
        return (one for one in self._schedules if one.clock == clock and not one.cancelled)
