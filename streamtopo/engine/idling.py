"""When a task has been idle for long, and how far its stream time is to move on then."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.windows import FOREVER


class Idling:
    def __init__(self, wall_clock: Callable[[], int]) -> None:
        self._wall_clock = wall_clock
        self.moved()

    def moved(self) -> None:
        """Stream time has moved on, or could have."""
        self._since = self._wall_clock()

    def time_after(self, time: int, patience: int) -> int | None:
        """As far behind this stream time as the wall clock went since, if that is so much; no time stays no time."""
        waited = self._wall_clock() - self._since
        return min(time + waited, FOREVER) if time >= 0 and waited >= patience else None
