"""Calls that processors have scheduled at intervals of stream time or of the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamtopo.errors import StreamtopoError
from streamtopo.processors import Clock

_NEVER = -1


@dataclass(eq=False)
class Schedule:
    """When one call is due. Its name, made of its node and a number, is the same after a restart."""

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
        """All intervals that have passed get a single call; the next call is at a multiple of the interval again."""
        self.due += self.interval * max(1, (now - self.due) // self.interval + 1)


class Punctuations:
    """The schedules of a task; those on stream time continue where they were at the last commit."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        self._wall_clock = wall_clock
        self._schedules: list[Schedule] = []
        self._remembered: dict[str, int] = {}
        self.opening = False
        """Processors are being opened. They schedule the same calls whenever they are opened: these have names."""

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
        """The first schedule to call, if any is due."""
        ready = [one for one in self._live(clock) if one.due <= now]
        return min(ready, key=lambda one: one.due, default=None)

    def skip(self, name: str, now: int) -> None:
        """A call failed and was undone; do not repeat it for this time."""
        for one in self._schedules:
            if name and one.name == name:
                one.passed(now)

    def next_due(self, clock: Clock) -> int | None:
        return min((one.due for one in self._live(clock)), default=None)

    def timetable(self, *clocks: Clock) -> dict[str, int]:
        """When each schedule on these clocks is due next."""
        remembered = {name: due for name, due in self._remembered.items() if not self._schedules}
        return remembered | {
            one.name: _NEVER if one.cancelled else one.due
            for one in self._schedules
            if one.name and one.clock in clocks
        }

    def recall(self, timetable: dict[str, int]) -> None:
        """Continue with what the position of an input has; of several, the latest time counts."""
        for name, due in timetable.items():
            known = self._remembered.get(name, due)
            self._remembered[name] = _NEVER if _NEVER in (due, known) else max(due, known)

    def restart(self, timetable: dict[str, int]) -> None:
        """Processors are made again and will schedule the same calls; these continue with this timetable."""
        self._schedules = []
        self._remembered = dict(timetable)

    def _live(self, clock: Clock) -> Iterable[Schedule]:
        return (one for one in self._schedules if one.clock == clock and not one.cancelled)
