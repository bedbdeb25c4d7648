"""Clocks and other numbers that operators keep: committed, restored and rolled back with their task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from streamtopo.records import latest_so_far, within
from streamtopo.windows import FOREVER


class Register(Protocol):
    """A number, for example that of the last row."""

    value: int
    """-1 until it is set."""


@dataclass(slots=True)
class Bound:
    """How far the rows that are being processed may move clocks: one for all clocks of a task."""

    time: int = FOREVER


@dataclass(slots=True)
class OperatorClock:
    """A time: the latest that an operator has seen, or the last that it acted on."""

    time: int = -1
    """Milliseconds; -1 until it is set."""
    bound: Bound = field(default_factory=Bound)

    @property
    def value(self) -> int:
        """The time, as a register has it: tasks keep both alike."""
        return self.time

    @value.setter
    def value(self, value: int) -> None:
        self.time = value

    @property
    def limited(self) -> bool:
        """Whether there are times that it does not follow."""
        return self.bound.time < FOREVER

    def observe(self, time: int) -> int:
        """Follow a row's time, unless it is past the bound; returns the clock's time."""
        if self.time < time <= self.bound.time:
            self.time = time
        return self.time

    def follow(self, times: list[int]) -> list[int]:
        """Follow the times of several rows, one after the other; returns the clock's time at each row."""
        followed = latest_so_far(times, self.time)
        if followed and followed[-1] > self.bound.time:
            followed = latest_so_far(within(times, self.bound.time), self.time)
        if followed:
            self.time = followed[-1]
        return followed
