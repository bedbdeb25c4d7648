"""Windows of time: which windows a record belongs to, when a window closes, and the keys of windowed rows."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Generic, NamedTuple, Self

from streamtopo.errors import TopologyError
from streamtopo.hints import hinted, hinted_class
from streamtopo.records.type_parameters import K
from streamtopo.settings.durations import Duration, described_milliseconds

FOREVER = (1 << 63) - 1
"""The end of a window that never ends, as in Kafka Streams."""


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed row. `end` is exclusive in time windows, inclusive in sliding and session windows."""

    key: K
    start: int
    end: int


windowed = partial(tuple.__new__, Windowed)
"""Makes a Windowed faster than its constructor, which is written in Python: `windowed((key, start, end))`."""


@hinted_class
class _KindOfWindows(ABCMeta):
    """Lets `Windows.of` say which kinds there are."""


@hinted
@dataclass(frozen=True)
class Windows(metaclass=_KindOfWindows):
    """How records are put into windows. A window accepts late records until stream time is `grace` past its end.

    The default grace is 0: a window closes at its end.
    """

    grace: int

    def __new__(cls, *arguments: object, **options: object) -> Self:
        if cls is Windows:
            raise TopologyError("choose a kind of windows: Windows.tumbling, hopping, sliding, session or unlimited")
        return super().__new__(cls)

    @property
    @abstractmethod
    def retention(self) -> int:
        """For how many milliseconds rows must be kept, at least. 0: forever."""

    @property
    @abstractmethod
    def after_end(self) -> int | None:
        """How many milliseconds after its end a window closes. None: it never closes."""

    @property
    @abstractmethod
    def key_size(self) -> int | None:
        """Milliseconds from the start to the end of each window; None if windows have different sizes.

        Keys of windows of one size are stored by the start, without the end. Other keys are stored by the end, with
        both times.
        """

    @property
    def meaning(self) -> str:
        """What the rows of these windows are; part of the fingerprint, because rows of other windows cannot be used."""
        return ""

    @staticmethod
    def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
        """Windows without gaps or overlaps. They begin in 1970: [0, size), [size, 2 * size), …"""
        length = _positive(size, "size")
        return TimeWindows(_not_negative(grace, "grace"), length, length)

    @staticmethod
    def hopping(size: Duration, *, every: Duration, grace: Duration = 0) -> TimeWindows:
        """Windows that overlap: a window of this size starts at each multiple of `every`."""
        length, advance = _positive(size, "size"), _positive(every, "every")
        if advance > length:
            raise TopologyError(
                f"windows of {length} ms every {advance} ms would leave gaps; `every` must not be larger than the size"
            )
        return TimeWindows(_not_negative(grace, "grace"), length, advance)

    @staticmethod
    def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
        """A window for each set of records that are at most `difference` apart. Both ends are inclusive."""
        return SlidingWindows(_not_negative(grace, "grace"), _not_negative(difference, "difference"))

    @staticmethod
    def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
        """A window for records of a key that follow each other with gaps of at most `gap`. Both ends are inclusive."""
        return SessionWindows(_not_negative(grace, "grace"), _positive(gap, "gap"))

    @staticmethod
    def unlimited(start: Duration = 0) -> UnlimitedWindows:
        """One window that never ends. Records before its start are ignored."""
        return UnlimitedWindows(0, _not_negative(start, "start"))


class Placed(NamedTuple):
    """Which windows records belong to: the place of a record in the chunk and the start of a window, by place."""

    places: list[int]
    starts: list[int]


@dataclass(frozen=True)
class WindowsByStart(Windows):
    """Windows of one size: the start of a window determines its end, and when it closes."""

    @property
    @abstractmethod
    def key_size(self) -> int: ...

    @property
    @abstractmethod
    def length(self) -> int:
        """Milliseconds from the start of a window to the first time after it."""

    @property
    def after_end(self) -> int | None:
        return self.grace

    def may_start(self, first: int, stop: int) -> bool:
        """Whether a window may start in [first, stop)."""
        return first < stop


@dataclass(frozen=True)
class AlignedWindows(WindowsByStart):
    """Windows that are the same for all keys: the time of a record determines its windows."""

    @abstractmethod
    def place(self, timestamps: list[int]) -> Placed:
        """The windows of records with these timestamps."""

    def ends(self, starts: list[int]) -> Iterable[int]:
        """The ends of the windows with these starts."""
        size = self.key_size
        return [start + size for start in starts]


@dataclass(frozen=True)
class TimeWindows(AlignedWindows):
    """Tumbling and hopping windows: [start, start + size), with each multiple of `advance` as a start."""

    size: int
    advance: int

    @property
    def retention(self) -> int:
        return self.size + self.grace

    @property
    def key_size(self) -> int:
        return self.size

    @property
    def length(self) -> int:
        return self.size

    @property
    def meaning(self) -> str:
        return f"windows of {self.size} ms" + ("" if self.advance == self.size else f" every {self.advance} ms")

    def may_start(self, first: int, stop: int) -> bool:
        return -(-first // self.advance) * self.advance < stop

    def place(self, timestamps: list[int]) -> Placed:
        size, advance = self.size, self.advance
        if size == advance and min(timestamps) >= 0:
            return Placed(list(range(len(timestamps))), [time - time % size for time in timestamps])
        pairs = [
            (place, start)
            for place, time in enumerate(timestamps)
            for start in range(max(0, time - size + advance) // advance * advance, time + 1, advance)
        ]
        return Placed([place for place, _ in pairs], [start for _, start in pairs])


@dataclass(frozen=True)
class UnlimitedWindows(AlignedWindows):
    """One window that never ends."""

    start: int

    @property
    def retention(self) -> int:
        return 0

    @property
    def after_end(self) -> int | None:
        return None

    @property
    def key_size(self) -> int:
        return FOREVER

    @property
    def length(self) -> int:
        return FOREVER

    @property
    def meaning(self) -> str:
        return f"one window from {self.start} ms on"

    def place(self, timestamps: list[int]) -> Placed:
        places = [place for place, time in enumerate(timestamps) if time >= self.start]
        return Placed(places, [self.start] * len(places))

    def ends(self, starts: list[int]) -> Iterable[int]:
        return repeat(FOREVER, len(starts))


@dataclass(frozen=True)
class SlidingWindows(WindowsByStart):
    """Windows of [start, start + difference], one for each set of records of a key that fits into it."""

    difference: int

    @property
    def retention(self) -> int:
        return 2 * self.difference + self.grace

    @property
    def key_size(self) -> int:
        return self.difference

    @property
    def length(self) -> int:
        return self.difference + 1

    @property
    def meaning(self) -> str:
        return f"sliding windows of {self.difference} ms"


@dataclass(frozen=True)
class SessionWindows(Windows):
    """Windows from the first to the last of the records of a key with at most `gap` between each and the next."""

    gap: int

    @property
    def retention(self) -> int:
        return self.gap + self.grace

    @property
    def after_end(self) -> int:
        return self.gap + self.grace

    @property
    def key_size(self) -> None:
        return None


def _positive(duration: Duration, what: str) -> int:
    return _at_least(1, duration, what)


def _not_negative(duration: Duration, what: str) -> int:
    return _at_least(0, duration, what)


def _at_least(least: int, duration: Duration, what: str) -> int:
    time = described_milliseconds(duration, f"the {what} of a window,")
    if time < least:
        raise TopologyError(f"the {what} of a window is {duration!r}; give {least} ms or more")
    return time
