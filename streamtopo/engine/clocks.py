"""The times that a task's operators keep: committed, restored and rolled back with the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamtopo.records import latest_so_far, within
from streamtopo.windows import FOREVER


@dataclass(slots=True)
class Bound:
    """How far clocks may be moved by the rows that are being processed: all clocks of a task ask this one."""

    time: int = FOREVER


@dataclass(slots=True)
class OperatorClock:
    """A time that an operator keeps: the latest it has seen, or the last it acted on."""

    time: int = -1
    bound: Bound = field(default_factory=Bound)

    @property
    def limited(self) -> bool:
        return self.bound.time < FOREVER

    def observe(self, time: int) -> int:
        """Follow a row's time, unless it is past the bound; returns the clock's time."""
        if self.time < time <= self.bound.time:
            self.time = time
        return self.time

    def follow(self, times: list[int]) -> list[int]:
        """The same for rows that come one after the other: the clock's time at each, that row included."""
        followed = latest_so_far(times, self.time)
        if followed and followed[-1] > self.bound.time:
            followed = latest_so_far(within(times, self.bound.time), self.time)
        if followed:
            self.time = followed[-1]
        return followed


class Clocks:
    def __init__(self) -> None:
        self.bound = Bound()
        self._by_name: dict[str, OperatorClock] = {}

    def __getitem__(self, name: str) -> OperatorClock:
        if name not in self._by_name:
            self._by_name[name] = OperatorClock(bound=self.bound)
        return self._by_name[name]

    def observed(self, store: str) -> int:
        """The store's largest time; for any thread: clocks are looked up by name, as the dict may grow meanwhile."""
        return self._largest(_names(store))

    def latest(self, store: str) -> int:
        """The latest time that a row of the store can have, those too far ahead included; for any thread."""
        return self._largest((*_names(store), f"{store}/latest"))

    def times(self) -> dict[str, int]:
        """Of those that were set."""
        return {name: clock.time for name, clock in self._by_name.items() if clock.time != -1}

    def restore(self, times: Mapping[str, int]) -> None:
        for name, clock in self._by_name.items():
            clock.time = times.get(name, -1)

    def _largest(self, names: tuple[str, ...]) -> int:
        clocks = map(self._by_name.get, names)
        return max((clock.time for clock in clocks if clock), default=-1)


class PutTimes:
    """How far the times in a store's keys go, where rows are put through a view."""

    def __init__(self, clocks: Clocks, store: str, now: Callable[[], int]) -> None:
        """`now` is the time of the record that is being processed."""
        self._clocks = clocks
        self._store = store
        self._now = now

    @property
    def time(self) -> int:
        return self._clocks.observed(self._store)

    @property
    def latest(self) -> int:
        return self._clocks.latest(self._store)

    def put(self, time: int) -> None:
        clock = self._clocks[f"{self._store}/put"]
        if self._now() > self._clocks.bound.time or clock.observe(time) < time:
            latest = self._clocks[f"{self._store}/latest"]
            latest.time = max(latest.time, time)


def time_of(store: str, times: Mapping[str, int]) -> int:
    """A store's largest time among such as `Clocks.times` gives: of what was put into it, not of what its node saw."""
    return max((times[name] for name in _names(store) if name in times), default=-1)


def latest_of(store: str, times: Mapping[str, int]) -> int:
    """The same, with rows that are too far ahead."""
    return max(time_of(store, times), times.get(f"{store}/latest", -1))


def _names(store: str) -> tuple[str, str, str]:
    return store, f"{store}/newest", f"{store}/put"
