"""What a worker shows of itself while it runs: its numbers over time, as lines where there is no terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import click

from streamtopo.cli.demonstration import Demonstration, Top
from streamtopo.engine.metrics import Metrics

_FIRST_LOOKS, _BETWEEN_LOOKS = 0.02, 0.25
"""Seconds between two looks at the numbers: until there is something to see, and from then on."""
_RATE_OVER = 1.0
_BETWEEN_LINES = 10.0
_BETWEEN_TOPS = 3.0
_FEW_TASKS = 12


class Seen(NamedTuple):
    """What a view is to show."""

    metrics: Metrics
    rate: float
    """Records per second, over the last second."""
    top: Top | None


class View(Protocol):
    def show(self, seen: Seen) -> None: ...

    def say(self, line: str) -> None:
        """Something happened that is worth a line."""
        ...

    def close(self) -> None: ...


class Watch:
    """Looks at the numbers a few times a second, and has them shown."""

    def __init__(self, view: View, demonstration: Demonstration | None) -> None:
        self._view = view
        self._demonstration = demonstration
        self._rate = Rate()
        self._next = 0.0

    def look(self, numbers: Callable[[], Metrics]) -> None:
        now = time.monotonic()
        if now >= self._next:
            seen = self._see(numbers(), now)
            self._next = now + (_BETWEEN_LOOKS if seen.metrics.records else _FIRST_LOOKS)
            self._view.show(seen)

    def end(self, metrics: Metrics) -> None:
        """After the last commit; the numbers stay as they were when it was at work."""
        self._view.close()
        self._view.say(f"stopped after {counted(metrics.records, 'record')}; all that was done is committed")

    def _see(self, metrics: Metrics, now: float) -> Seen:
        self._rate.add(now, metrics.records)
        return Seen(metrics, self._rate.per_second, self._demonstration.top() if self._demonstration else None)


class Rate:
    """How fast a total grows, over the last second or so."""

    def __init__(self) -> None:
        self._totals: deque[tuple[float, int]] = deque()

    def add(self, now: float, total: int) -> None:
        self._totals.append((now, total))
        while len(self._totals) > 2 and self._totals[1][0] <= now - _RATE_OVER:
            self._totals.popleft()

    @property
    def per_second(self) -> float:
        (began, first), (ended, last) = self._totals[0], self._totals[-1]
        return max(0.0, (last - first) / (ended - began)) if ended > began else 0.0


class Lines:
    """A line whenever the tasks change, and every ten seconds while something happens."""

    def __init__(self) -> None:
        self._tasks = "none"
        self._records = 0
        self._line_at = time.monotonic() + _BETWEEN_LINES
        self._top_at = 0.0

    def show(self, seen: Seen) -> None:
        now = time.monotonic()
        metrics = seen.metrics
        known = f"{metrics.tasks} {len(metrics.restoring)}"
        if known != self._tasks and (metrics.tasks or metrics.restoring):
            self._tasks = known
            self.say(tasks_in_words(metrics))
        if now >= self._line_at and (metrics.records != self._records or metrics.lag or metrics.restoring):
            self._line_at, self._records = now + _BETWEEN_LINES, metrics.records
            self.say(numbers_in_words(seen))
        if seen.top and seen.top.rows and now >= self._top_at:
            self._top_at = now + _BETWEEN_TOPS
            self.say(f"{seen.top.title}: " + ", ".join(f"{key} {value:,}" for key, value in seen.top.rows[:5]))

    def say(self, line: str) -> None:
        click.echo(f"{time.strftime('%H:%M:%S')} {line}")

    def close(self) -> None:
        pass


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def tasks_in_words(metrics: Metrics) -> str:
    named = f": {' '.join(metrics.tasks)}" if 0 < len(metrics.tasks) <= _FEW_TASKS else ""
    at_work = f"{counted(len(metrics.tasks), 'task')} at work{named}"
    return f"{restoring_in_words(metrics)}; {at_work}" if metrics.restoring else at_work


def restoring_in_words(metrics: Metrics) -> str:
    done = sum(store.done for store in metrics.restoring)
    total = sum(store.total for store in metrics.restoring)
    share = 100 * done // total if total else 100
    return f"restoring {counted(len(metrics.restoring), 'store')}, {share} % of {counted(total, 'record')}"


def numbers_in_words(seen: Seen) -> str:
    metrics = seen.metrics
    said = [
        f"{seen.rate:,.0f} records/s",
        f"{metrics.records:,} in all",
        f"lag {lag_in_words(metrics)}",
        f"commit {metrics.commit_ms:.1f} ms",
        counted(len(metrics.tasks), "task"),
        *([restoring_in_words(metrics)] if metrics.restoring else []),
        *lost_in_words(metrics),
    ]
    return ", ".join(said)


def lag_in_words(metrics: Metrics) -> str:
    return "unknown" if metrics.lag is None else f"{metrics.lag:,}"


def lost_in_words(metrics: Metrics) -> list[str]:
    skipped = [f"skipped {metrics.skipped:,}"] if metrics.skipped else []
    dropped = [f"dropped for {reason} {rows:,}" for reason, rows in metrics.dropped.items() if rows]
    ahead = [f"too far ahead of the clock {metrics.ahead:,}"] if metrics.ahead else []
    return skipped + dropped + ahead
