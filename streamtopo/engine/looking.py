"""Looks at the log that come again and again, and take time where a cluster answers them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from streamtopo.config import WorkerConfig


class Looking:
    def __init__(self, config: WorkerConfig, rest: int, *, least: float = 0.0, most: float = inf) -> None:
        """Looks are `rest` times as far apart as they are long, but `least` seconds, and not more than `most`."""
        self._rest = rest if config.commit_pause else 0  # nothing is put off in the Driver
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
        """At once: what was seen was not all."""
        self._next = 0.0
