"""Clocks and other numbers that operators keep: committed, restored and rolled back with their task."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Protocol

from streamtopo.records import latest_so_far, within
from streamtopo.windows import FOREVER


class Register(Protocol):
    """A number, for example that of the last row."""

    value: int
    """-1 until it is set."""


@dataclass(slots=True)
class Number:
    """A register."""

    value: int = -1


@dataclass(slots=True)
class Bound:
    """How far rows may move clocks: the same for all clocks of a node."""

    time: int = FOREVER
    """Clocks ignore rows with a later time: they are too far ahead of the wall clock."""
    horizon: int = FOREVER
    """Clocks stop here until it moves: a slower task may still write rows with later times than this."""
    lead: int = -1
    """Stream time goes as far as this without a row: all that may still write rows have got there."""


@dataclass(slots=True)
class OperatorClock:
    """A time: the latest that an operator has seen, or the last that it acted on."""

    time: int = -1
    """Milliseconds; -1 until it is set."""
    seen: int = -1
    """The latest time of a row, or to which it was led: past `time` while the horizon holds the clock back."""
    bound: Bound = field(default_factory=Bound)
    led: bool = False
    """Whether it shows stream time, and not only that of the rows that it has seen."""

    @property
    def limited(self) -> bool:
        """Whether there are times that it ignores."""
        return self.bound.time < FOREVER

    @property
    def behind(self) -> bool:
        """Whether it could catch up."""
        return self.time < min(max(self.seen, self._lead), self.bound.horizon)

    @property
    def _lead(self) -> int:
        return self.bound.lead if self.led else -1

    def observe(self, time: int) -> int:
        """Follow a row's time, unless it is past the bound; returns the clock's time."""
        if self.seen < time <= self.bound.time:
            self.seen = time
            self.catch_up()
        return self.time

    def see(self, times: list[int]) -> list[int]:
        """Note the times of several rows, one after the other; returns the latest time seen at each row.

        `held_back` must follow: it moves the clock.
        """
        before = max(self.seen, self._lead)
        seen = latest_so_far(times, before)
        if seen and seen[-1] > self.bound.time:
            seen = latest_so_far(within(times, self.bound.time), before)
        if seen:
            self.seen = seen[-1]
        return seen

    def held_back(self, seen: list[int]) -> list[int]:
        """The clock's time at each row, from what `see` has returned. The result must not be changed."""
        before = self.time
        self.catch_up()
        return not_past(seen, max(self.bound.horizon, before))

    def catch_up(self) -> bool:
        """Move to the latest time that was seen, or to the lead, but not past the horizon; true if the clock moves."""
        if self.led and self.seen < self.bound.lead:
            self.seen = self.bound.lead
        time = self.seen if self.seen < self.bound.horizon else self.bound.horizon
        if time <= self.time:
            return False
        self.time = time
        return True

    def reach(self, time: int) -> None:
        """It is this time now, whatever rows say."""
        if time > self.time:
            self.time, self.seen = time, max(time, self.seen)


def not_past(times: list[int], limit: int) -> list[int]:
    """The times, which ascend; the limit instead of those past it. The result must not be changed."""
    if not times or times[-1] <= limit:
        return times
    reached = bisect_right(times, limit)
    return times[:reached] + [limit] * (len(times) - reached)
