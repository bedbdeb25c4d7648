"""Windows of time: which of them a record belongs to, when each closes, and the key a windowed row has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from streamtopo.durations import Duration, milliseconds
from streamtopo.errors import TopologyError

FOREVER = (1 << 63) - 1
"""The end of a window that never ends, as Kafka Streams has it."""


class Windowed(NamedTuple):
    """The key of a windowed row; `end` is excluded in time windows, included in sliding and session windows."""

    key: object
    start: int
    end: int


windowed = partial(tuple.__new__, Windowed)
"""Windowed without the call of its constructor, which is written in Python: `windowed((key, start, end))`."""


@dataclass(frozen=True)
class Windows:
    """How records are put into windows. A window takes late records until stream time is `grace` past its end.

    Kafka Streams makes everybody choose a grace. Here it is 0 unless it is given: a window is closed at its end.
    """

    grace: int

    @property
    def meaning(self) -> str:
        """What a row of such windows stands for, as its key only has the start."""
        return ""

    @staticmethod
    def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
        """One after the other, from the epoch on: [0, size), [size, 2 * size), …"""
        length = _positive(size, "size")
        return TimeWindows(_not_negative(grace, "grace"), length, length)

    @staticmethod
    def hopping(size: Duration, *, every: Duration, grace: Duration = 0) -> TimeWindows:
        """A window of this size begins at each multiple of `every`; they overlap."""
        length, advance = _positive(size, "size"), _positive(every, "every")
        if advance > length:
            raise TopologyError(
                f"windows of {length} ms every {advance} ms would leave gaps; give `every` the size at most"
            )
        return TimeWindows(_not_negative(grace, "grace"), length, advance)

    @staticmethod
    def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
        """A window for each set of records that are no further apart than this; both ends are included."""
        return SlidingWindows(_not_negative(grace, "grace"), _not_negative(difference, "difference"))

    @staticmethod
    def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
        """Records of a key that are no further apart than `gap`; both ends are included."""
        return SessionWindows(_not_negative(grace, "grace"), _positive(gap, "gap"))

    @staticmethod
    def unlimited(start: Duration = 0) -> UnlimitedWindows:
        """One window that never ends; records before its start are left out."""
        return UnlimitedWindows(0, _not_negative(start, "start"))


@dataclass(frozen=True)
class TimeWindows(Windows):
    size: int
    advance: int

    @property
    def meaning(self) -> str:
        return f"windows of {self.size} ms" + ("" if self.advance == self.size else f" every {self.advance} ms")

    @property
    def retention(self) -> int:
        """For how long rows must be kept at least."""
        return self.size + self.grace

    @property
    def after_end(self) -> int:
        """When a window closes: so long after its end."""
        return self.grace


@dataclass(frozen=True)
class SlidingWindows(Windows):
    difference: int

    @property
    def meaning(self) -> str:
        return f"sliding windows of {self.difference} ms"

    @property
    def retention(self) -> int:
        return 2 * self.difference + self.grace

    @property
    def after_end(self) -> int:
        return self.grace


@dataclass(frozen=True)
class SessionWindows(Windows):
    gap: int

    @property
    def retention(self) -> int:
        return self.gap + self.grace

    @property
    def after_end(self) -> int:
        return self.gap + self.grace


@dataclass(frozen=True)
class UnlimitedWindows(Windows):
    start: int

    @property
    def meaning(self) -> str:
        return f"one window from {self.start} ms on"

    retention = 0
    """Rows stay for ever."""


def _positive(duration: Duration, what: str) -> int:
    return _at_least(1, duration, what)


def _not_negative(duration: Duration, what: str) -> int:
    return _at_least(0, duration, what)


def _at_least(least: int, duration: Duration, what: str) -> int:
    time = milliseconds(duration)
    if time < least:
        raise TopologyError(f"the {what} of a window is {duration!r}; give {least} ms or more")
    return time
