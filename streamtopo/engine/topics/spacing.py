"""Limits how often the log is polled for information that takes a cluster time to return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from streamtopo.settings.config import WorkerConfig


class Spacing:
    def __init__(self, config: WorkerConfig, rest: int, *, least: float = 0.0, most: float = inf) -> None:
        """The pause after a look is `rest` times what the look took, and between `least` and `most` seconds."""
        self._rest = rest if config.commit_pause else 0  # the Driver never waits
        self._least, self._most = least, most
        self._next = time.monotonic() + least

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next

    @contextmanager
    def look(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        ended = time.monotonic()
        self._next = max(began + self._least, ended + min(self._rest * (ended - began), self._most))

    def again(self) -> None:
        """Look again at once, because there is more to see."""
        self._next = 0.0
