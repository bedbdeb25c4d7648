"""Shows the progress of a running worker: its numbers over time, as lines if there is no terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import click

from streamtopo.cli.running.demo import RunningDemo, Top
from streamtopo.cli.shared.tables import counted
from streamtopo.engine.metrics import Metrics
from streamtopo.wall_clock import wall_clock

_FIRST_INTERVAL, _INTERVAL = 0.02, 0.25
"""Seconds between two updates: before the first record, and from then on."""
_RATE_PERIOD = 1.0
_LINE_INTERVAL = 10.0
_TOP_INTERVAL = 3.0
_MAX_NAMED_TASKS = 12
_MAX_WAITS = 3


class ProgressUpdate(NamedTuple):
    """What a view shows at one moment."""

    metrics: Metrics
    rate: float
    """Records per second, over the last second."""
    top: Top | None
    now: int = 0
    """By the wall clock."""


class View(Protocol):
    def show(self, update: ProgressUpdate) -> None: ...

    def say(self, line: str) -> None:
        """Print a line about something that happened."""
        ...

    def close(self) -> None: ...


class ProgressReporter:
    """Passes the numbers to the view a few times a second."""

    def __init__(self, view: View, running_demo: RunningDemo | None) -> None:
        self._view = view
        self._demo = running_demo
        self._rate = Rate()
        self._next = 0.0

    def update(self, numbers: Callable[[], Metrics]) -> None:
        now = time.monotonic()
        if now >= self._next:
            update = self._update_of(numbers(), now)
            self._next = now + (_INTERVAL if update.metrics.records else _FIRST_INTERVAL)
            self._view.show(update)

    def end(self, metrics: Metrics) -> None:
        """Close the view, after the last commit. The last numbers stay on the terminal."""
        self._view.close()
        processed = ", ".join([counted(metrics.records, "record"), *lost_text(metrics)])
        self._view.say(f"stopped after {processed}; all results are committed")
        for failures in metrics.failures:
            self._view.say(f"  {failures}")

    def _update_of(self, metrics: Metrics, now: float) -> ProgressUpdate:
        self._rate.add(now, metrics.records)
        return ProgressUpdate(metrics, self._rate.per_second, self._demo.top() if self._demo else None, wall_clock())


class Rate:
    """How fast a total grows, over about the last second."""

    def __init__(self) -> None:
        self._totals: deque[tuple[float, int]] = deque()

    def add(self, now: float, total: int) -> None:
        self._totals.append((now, total))
        while len(self._totals) > 2 and self._totals[1][0] <= now - _RATE_PERIOD:
            self._totals.popleft()

    @property
    def per_second(self) -> float:
        (began, first), (ended, last) = self._totals[0], self._totals[-1]
        return max(0.0, (last - first) / (ended - began)) if ended > began else 0.0


class LineView:
    """Prints a line when the tasks change, and every ten seconds while records are processed."""

    def __init__(self) -> None:
        self._tasks = "none"
        self._records = 0
        self._line_at = time.monotonic() + _LINE_INTERVAL
        self._top_at = 0.0

    def show(self, update: ProgressUpdate) -> None:
        now = time.monotonic()
        metrics = update.metrics
        tasks = f"{metrics.tasks} {len(metrics.restoring)}"
        if tasks != self._tasks and (metrics.tasks or metrics.restoring):
            self._tasks = tasks
            self.say(tasks_text(metrics))
        if now >= self._line_at and (
            metrics.records != self._records or metrics.lag or metrics.restoring or waits(update)
        ):
            self._line_at, self._records = now + _LINE_INTERVAL, metrics.records
            self.say(numbers_text(update))
        if update.top and update.top.rows and now >= self._top_at:
            self._top_at = now + _TOP_INTERVAL
            self.say(f"{update.top.title}: " + ", ".join(f"{key} {value:,}" for key, value in update.top.rows[:5]))

    def say(self, line: str) -> None:
        click.echo(f"{time.strftime('%H:%M:%S')} {line}")

    def close(self) -> None:
        pass


def tasks_text(metrics: Metrics) -> str:
    named = f": {' '.join(metrics.tasks)}" if 0 < len(metrics.tasks) <= _MAX_NAMED_TASKS else ""
    running = f"{counted(len(metrics.tasks), 'task')} running{named}"
    return f"{restoring_text(metrics)}; {running}" if metrics.restoring else running


def restoring_text(metrics: Metrics) -> str:
    done = sum(store.done for store in metrics.restoring)
    total = sum(store.total for store in metrics.restoring)
    share = 100 * done // total if total else 100
    return f"restoring {counted(len(metrics.restoring), 'store')}, {share} % of {counted(total, 'record')}"


def numbers_text(update: ProgressUpdate) -> str:
    metrics = update.metrics
    parts = [
        f"{update.rate:,.0f} records/s",
        f"{metrics.records:,} in total",
        f"lag {lag_text(metrics)}",
        f"commit {metrics.commit_ms:.1f} ms",
        counted(len(metrics.tasks), "task"),
        *([restoring_text(metrics)] if metrics.restoring else []),
        *lost_text(metrics),
    ]
    return "; ".join([", ".join(parts), *waits(update)])


def lag_text(metrics: Metrics) -> str:
    return "unknown" if metrics.lag is None else f"{metrics.lag:,}"


def waits(update: ProgressUpdate) -> list[str]:
    """What time waits for, the longest first."""
    held_back = update.metrics.held_back
    lasting = [one.in_words(update.now) for one in held_back if one.worth_showing(update.now)]
    more = len(lasting) - _MAX_WAITS
    return lasting if more <= 0 else [*lasting[:_MAX_WAITS], f"and for {counted(more, 'other task')}"]


def lost_text(metrics: Metrics) -> list[str]:
    skipped = [f"skipped {metrics.skipped:,}"] if metrics.skipped else []
    skipped += [counted(metrics.dead_letters, "dead letter")] if metrics.dead_letters else []
    dropped = [f"dropped for {reason} {rows:,}" for reason, rows in metrics.dropped.items() if rows]
    ahead = [f"too far ahead of the clock {metrics.ahead:,}"] if metrics.ahead else []
    return skipped + dropped + ahead
