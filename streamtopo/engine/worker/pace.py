"""When to commit: at the interval under load, and as soon as the worker has caught up, but not too often."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamtopo.settings.config import WorkerConfig
from streamtopo.wall_clock import steady_clock

_REST = 1.0
"""When the worker has caught up, the pause between commits is this multiple of the time a commit takes."""


class Pace:
    def __init__(self, config: WorkerConfig, now: Callable[[], float] = steady_clock) -> None:
        self._config = config
        self._now = now
        self._requested = False
        self._records = 0
        self.records = 0
        self.commits = 0
        self.commit_ms = 0.0
        self._commit_ms_before = 0.0
        self._refused = 0
        """Commits that were refused since the last one that succeeded."""
        self.undurable = False
        """Whether something was done since the last commit."""
        self._committed_at = now()

    def did(self, records: int) -> None:
        self.undurable = True
        self._records += records

    def request(self) -> None:
        self._requested = True

    def due(self, *, caught_up: bool) -> bool:
        if not self.undurable:
            return False
        return self._requested or self._waited() >= (self._pause() if caught_up else self._config.commit_interval)

    def rest(self, longest: float) -> None:
        """Wait until a commit may come, up to `longest` seconds: many records together cost less than one by one."""
        if self.undurable and not self._requested:
            time.sleep(max(0.0, min(longest, (self._pause() - self._waited()) / 1000)))

    def _waited(self) -> float:
        return self._now() - self._committed_at

    def _pause(self) -> float:
        """Milliseconds. Of the last two commits the shorter one counts: the longer one may have waited for the disk."""
        least, most = self._config.commit_pause, self._config.commit_interval
        return min(max(least, _REST * min(self.commit_ms, self._commit_ms_before)), most) if least else 0.0

    @contextmanager
    def committing(self) -> Iterator[None]:
        started = self._now()
        yield
        self._commit_ms_before, self.commit_ms = self.commit_ms, self._now() - started

    def committed(self) -> None:
        self.records += self._records
        self.commits += 1
        self._refused = 0
        self.forget()

    def refused(self) -> int:
        """The log refused a commit; returns how many it refused in a row."""
        self._refused += 1
        return self._refused

    def forget(self) -> None:
        """Nothing is left to commit: it was committed, or undone."""
        self._requested, self.undurable, self._records = False, False, 0
        self._committed_at = self._now()
