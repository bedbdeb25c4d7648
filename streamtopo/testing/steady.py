"""The clock of a Driver for waits."""

from __future__ import annotations

from collections.abc import Callable


class SteadyClock:
    """It goes on with a wall clock, but stays where it is when that is set back."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        self._wall_clock = wall_clock
        self._shown = wall_clock()
        self._passed = 0

    def __call__(self) -> float:
        before, self._shown = self._shown, self._wall_clock()
        self._passed += max(0, self._shown - before)
        return self._passed
