"""The clocks of a task's operators. They are committed, restored and rolled back with the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamtopo.topology.clocks import Bound, Number, OperatorClock

_SEEN = "/seen"
"""Added to the name of a clock: the latest time that it has seen, if the horizon holds the clock back."""


class Clocks:
    """The clocks and registers of a task, by name."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        """That of the whole task."""
        self._clocks: dict[str, OperatorClock] = {}
        self._registers: dict[str, Number] = {}
        self._known: dict[str, int] = {}
        """Of all names, at the last rollback, or at the start."""

    def clock(self, name: str, bound: Bound | None = None, *, led: bool = False) -> OperatorClock:
        """The first operator that uses the clock, which is the one that moves it, gives its bound."""
        if name not in self._clocks:
            self._clocks[name] = OperatorClock(bound=bound or self.bound, led=led)
            self._set(name, self._clocks[name])
        return self._clocks[name]

    def register(self, name: str) -> Number:
        if name not in self._registers:
            self._registers[name] = Number(self._known.get(name, -1))
        return self._registers[name]

    def catch_up(self) -> bool:
        """Move all clocks as far as their bounds allow; true if any has moved."""
        moved = [clock.catch_up() for clock in self._clocks.values()]
        return any(moved)

    @property
    def behind(self) -> bool:
        """Whether any could catch up."""
        return any(clock.behind for clock in self._clocks.values())

    def of_store(self, store: str) -> list[OperatorClock]:
        """Those that follow the times in the keys of the store."""
        return [self._clocks[name] for name in _names(store) if name in self._clocks]

    def times(self) -> dict[str, int]:
        """The clocks and registers that were set."""
        times = {name: clock.time for name, clock in self._clocks.items()}
        times |= {name + _SEEN: clock.seen for name, clock in self._clocks.items() if clock.seen > clock.time}
        times |= {name: register.value for name, register in self._registers.items()}
        unused = self._known.keys() - times.keys() - {name + _SEEN for name in self._clocks}
        times |= {name: self._known[name] for name in unused}
        return {name: time for name, time in times.items() if time != -1}

    def recall(self, times: Mapping[str, int]) -> None:
        """Before any is used: of several positions, the latest time counts."""
        self.restore({name: max(time, self._known.get(name, -1)) for name, time in {**self._known, **times}.items()})

    def restore(self, times: Mapping[str, int]) -> None:
        self._known = dict(times)
        for name, clock in self._clocks.items():
            self._set(name, clock)
        for name, register in self._registers.items():
            register.value = times.get(name, -1)

    def _set(self, name: str, clock: OperatorClock) -> None:
        clock.time = self._known.get(name, -1)
        clock.seen = max(clock.time, self._known.get(name + _SEEN, -1))


class PutTimes:
    """The largest time in the keys of a store, where rows are put through a view."""

    def __init__(self, clocks: Clocks, store: str, now: Callable[[], int]) -> None:
        """`now` is the time of the record that is being processed."""
        self._clocks = clocks
        self._store = store
        self._now = now
        self._put = clocks.clock(f"{store}/put")
        self._ahead = clocks.register(f"{store}/latest")

    @property
    def time(self) -> int:
        return max(clock.time for clock in self._clocks.of_store(self._store))

    @property
    def latest(self) -> int:
        return max(self._ahead.value, *[clock.seen for clock in self._clocks.of_store(self._store)])

    def put(self, time: int) -> None:
        if self._now() > self._put.bound.time or self._put.observe(time) < time:
            self._ahead.value = max(self._ahead.value, time)


def time_of(store: str, times: Mapping[str, int]) -> int:
    """The largest time in the keys of a store, from the result of `Clocks.times`; or -1."""
    return max((times[name] for name in _names(store) if name in times), default=-1)


def latest_of(store: str, times: Mapping[str, int]) -> int:
    """The same, including rows that are past the horizon, or too far ahead of the wall clock."""
    seen = [times[name + _SEEN] for name in _names(store) if name + _SEEN in times]
    return max(time_of(store, times), times.get(f"{store}/latest", -1), *seen)


def _names(store: str) -> tuple[str, str, str]:
    return store, f"{store}/newest", f"{store}/put"
