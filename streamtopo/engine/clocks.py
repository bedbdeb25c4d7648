"""The times that a task's operators keep, each under a name that begins with that of its store, if it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class OperatorClock:
    """A time that an operator keeps: the latest it has seen, or the last it acted on."""

    time: int = -1


class Clocks:
    def __init__(self) -> None:
        self._by_name: dict[str, OperatorClock] = {}

    def __getitem__(self, name: str) -> OperatorClock:
        if name not in self._by_name:
            self._by_name[name] = OperatorClock()
        return self._by_name[name]

    def observed(self, store: str, time: int = -1) -> int:
        """Take note of a time that was put through a view, if one is given; returns the store's largest so far.

        Without a time for any thread: clocks are looked up by name, because the dict may grow meanwhile.
        """
        if time >= 0:
            clock = self[f"{store}/put"]
            clock.time = max(clock.time, time)
        clocks = map(self._by_name.get, _names(store))
        return max((clock.time for clock in clocks if clock), default=-1)

    def times(self) -> dict[str, int]:
        return {name: clock.time for name, clock in self._by_name.items()}

    def restore(self, times: Mapping[str, int]) -> None:
        for name, clock in self._by_name.items():
            clock.time = times.get(name, -1)


def time_of(store: str, times: Mapping[str, int]) -> int:
    """A store's largest time among such as `Clocks.times` gives: of what was put into it, not of what its node saw."""
    return max((times[name] for name in _names(store) if name in times), default=-1)


def _names(store: str) -> tuple[str, str, str]:
    return store, f"{store}/newest", f"{store}/put"
