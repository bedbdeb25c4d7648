"""The clock of a Cluster, and what is to happen when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Agenda:
    def __init__(self) -> None:
        self.now = 0
        self._entries: list[tuple[int, int, Callable[[], object]]] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: int, action: Callable[[], object]) -> None:
        """What is to happen at the same time happens in the order in which it was added."""
        self._added += 1
        heappush(self._entries, (time, self._added, action))

    @property
    def next(self) -> int | None:
        return self._entries[0][0] if self._entries else None

    def move_to(self, time: int) -> bool:
        """Move the clock, which never goes back, and do what is due by then; true if there was something."""
        self.now = max(self.now, time)
        due = False
        while self._entries and self._entries[0][0] <= self.now:
            heappop(self._entries)[2]()
            due = True
        return due
