"""When to commit: at the interval under load, and as soon as the worker has caught up, but not in a flood."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamtopo.config import WorkerConfig

_FEW = 10
"""Commits that carry fewer records than this are put further apart."""


class Pace:
    def __init__(self, config: WorkerConfig, now: Callable[[], int]) -> None:
        self._config = config
        self._now = now
        self._pause = config.commit_pause
        self._requested = False
        self._records = 0
        self.records = 0
        self.commits = 0
        self.commit_ms = 0.0
        self.undurable = False
        """Whether anything was done since the last commit."""
        self._committed_at = now()

    def did(self, records: int) -> None:
        self.undurable = True
        self._records += records

    def request(self) -> None:
        self._requested = True

    def due(self, *, caught_up: bool) -> bool:
        if not self.undurable:
            return False
        waited = abs(self._now() - self._committed_at)
        return self._requested or waited >= (self._pause if caught_up else self._config.commit_interval)

    @contextmanager
    def committing(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.commit_ms = (time.perf_counter() - started) * 1000

    def committed(self) -> None:
        self.records += self._records
        self.commits += 1
        self.forget()

    def forget(self) -> None:
        """Nothing is left to commit: it was committed, or is undone."""
        few = self._records < _FEW
        self._pause = min(self._pause * 2, self._config.commit_interval) if few else self._config.commit_pause
        self._requested, self.undurable, self._records = False, False, 0
        self._committed_at = self._now()
