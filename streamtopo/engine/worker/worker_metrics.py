"""The metrics of a worker: current ones for its own thread, and those of a moment ago for other threads."""

from __future__ import annotations

import threading
import time
from collections import Counter

from streamtopo.engine.assignment.held_back import HeldBackTime
from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.failures.rejections import Rejections
from streamtopo.engine.metrics import Failures, Metrics, failures_by
from streamtopo.engine.worker.pace import Pace

_BETWEEN = 0.1
"""Seconds for which other threads get the same metrics."""
_REST = 50
"""If it takes long, the pause is this multiple of it: thousands of tasks may wait for as many others."""


class WorkerMetrics:
    def __init__(self, tasks: Tasks, pace: Pace, rejections: Rejections, held_back: HeldBackTime) -> None:
        self._tasks = tasks
        self._pace = pace
        self._rejections = rejections
        self._held_back = held_back
        self._shown = self._measure()
        self._next = 0.0
        self.begin()

    def begin(self) -> None:
        """From now on, this is the thread of the worker."""
        self._thread = threading.get_ident()

    def now(self) -> Metrics:
        return self._measure() if threading.get_ident() == self._thread else self._shown

    def update(self) -> None:
        if (began := time.monotonic()) >= self._next:
            self._shown, ended = self._measure(), time.monotonic()
            self._next = ended + max(_BETWEEN, _REST * (ended - began))

    def _measure(self) -> Metrics:
        dropped = Counter(self._tasks.dropped_before)
        for task in self._tasks.ready.values():
            dropped.update(task.progress.all_dropped())
        return Metrics(
            tasks=tuple(str(id) for id in sorted(self._tasks.ready)),
            restoring=self._tasks.restoring(),
            records=self._pace.records,
            lag=self._tasks.lag(),
            commits=self._pace.commits,
            commit_ms=self._pace.commit_ms,
            skipped=self._rejections.skipped,
            dead_letters=self._rejections.dead_letters,
            failures=failures_by(Failures(*kind, count) for kind, count in self._rejections.counts.items()),
            dropped=dict(dropped),
            held_back=self._held_back.all(),
            ahead=self._tasks.ahead_before + sum(task.horizons.ahead.beyond for task in self._tasks.ready.values()),
        )
