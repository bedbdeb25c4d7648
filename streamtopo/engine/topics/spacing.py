"""Limits how often the log is polled for information that takes a cluster time to return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from streamtopo.settings.config import WorkerConfig
from streamtopo.wall_clock import steady_clock


class Spacing:
    def __init__(
        self,
        config: WorkerConfig,
        rest: int,
        *,
        least: float = 0.0,
        most: float = inf,
        now: Callable[[], float] = steady_clock,
    ) -> None:
        """The pause after a look is `rest` times what the look took, and between `least` and `most` seconds."""
        self._rest = rest if config.commit_pause else 0  # the Driver never waits
        self._least, self._most = least * 1000, most * 1000
        self._now = now
        self._next = now() + self._least

    @property
    def due(self) -> bool:
        return self._now() >= self._next

    @contextmanager
    def look(self) -> Iterator[None]:
        began = self._now()
        yield
        ended = self._now()
        self._next = max(began + self._least, ended + min(self._rest * (ended - began), self._most))

    def again(self) -> None:
        """Look again at once, because there is more to see."""
        self._next = -inf
