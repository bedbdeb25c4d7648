"""The clocks of a task's operators. They are committed, restored and rolled back with the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamtopo.topology.clocks import Bound, OperatorClock


class Clocks:
    """The clocks and registers of a task, by name."""

    def __init__(self) -> None:
        self.bound = Bound()
        self._by_name: dict[str, OperatorClock] = {}

    def __getitem__(self, name: str) -> OperatorClock:
        if name not in self._by_name:
            self._by_name[name] = OperatorClock(bound=self.bound)
        return self._by_name[name]

    def observed(self, store: str) -> int:
        """The largest time in the keys of the store, or -1."""
        return self._largest(_names(store))

    def latest(self, store: str) -> int:
        """The same, including rows that are too far ahead of the wall clock."""
        return self._largest((*_names(store), f"{store}/latest"))

    def times(self) -> dict[str, int]:
        """The clocks that were set."""
        return {name: clock.time for name, clock in self._by_name.items() if clock.time != -1}

    def restore(self, times: Mapping[str, int]) -> None:
        for name, clock in self._by_name.items():
            clock.time = times.get(name, -1)

    def _largest(self, names: tuple[str, ...]) -> int:
        clocks = map(self._by_name.get, names)
        return max((clock.time for clock in clocks if clock), default=-1)


class PutTimes:
    """The largest time in the keys of a store, where rows are put through a view."""

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
    """The largest time in the keys of a store, from the result of `Clocks.times`; or -1."""
    return max((times[name] for name in _names(store) if name in times), default=-1)


def latest_of(store: str, times: Mapping[str, int]) -> int:
    """The same, including rows that are too far ahead of the wall clock."""
    return max(time_of(store, times), times.get(f"{store}/latest", -1))


def _names(store: str) -> tuple[str, str, str]:
    return store, f"{store}/newest", f"{store}/put"
