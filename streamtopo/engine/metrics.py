"""What a worker has done and still has to do, as plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Literal, NamedTuple

from streamtopo.records import TopicPartition
from streamtopo.settings.durations import spoken

SOON = 1_000
_LONG = 60_000
_MOST = 3

Why = Literal["restoring", "unread", "behind", "not started", "idle"]
"""Why time waits for a task: this worker restores its stores; it said that it had read all, but there are records that
nobody has read; it is not done with its records; no worker has announced anything for it; it has nothing to read, but
this is not known for long enough (`origin_idle`)."""

_WHY: dict[Why, str] = {
    "restoring": "restoring its stores",
    "unread": "with unread records",
    "behind": "behind",
    "not started": "not started",
    "idle": "idle",
}
"""In words; the first ones say more, if several workers disagree."""


class RestoreProgress(NamedTuple):
    """How far a store is restored from its changelog."""

    store: str
    partition: int
    done: int
    total: int


class TimeHeldBack(NamedTuple):
    """A task that others wait for: they have seen rows with later times than their clocks may show until it gets on."""

    task: str
    partitions: tuple[TopicPartition, ...]
    """What it reads; or only what has unread records, if that is known."""
    why: Why
    behind_ms: int | None
    """From the stream time of those that wait to the latest time that they have seen; None if they have no time yet."""
    since: int
    """By the wall clock, when their stream time stopped."""
    tasks: int = 1
    """How many wait for it."""

    def in_words(self, now: int) -> str:
        waited = now - self.since
        behind = [] if self.behind_ms is None else [f"{spoken(self.behind_ms)} behind"]
        why = [] if self.why == "behind" else [_WHY[self.why]]
        lasting = f"for {spoken(waited // 1000 * 1000)}" if waited >= SOON else "moving"
        places = ", ".join(map(str, self.partitions[:_MOST])) + ", …" * (len(self.partitions) > _MOST)
        several = f"; {self.tasks} tasks wait" if self.tasks > 1 else ""
        return f"time waits for {places} (task {self.task}): {', '.join([*behind, *why, lasting])}{several}"

    def worth_showing(self, now: int) -> bool:
        """Whether it lasts, or takes long. Between two commits time stops all the time."""
        return now - self.since >= SOON or (self.why != "idle" and (self.behind_ms or 0) >= _LONG)


class Failures(NamedTuple):
    """Records that failed in the same way."""

    node: str
    exception: str
    """The name of its class."""
    answer: str
    """"skip" or "dead-letter"."""
    place: str
    """The node for people: see `FailedRecord.code_place`."""
    records: int

    def __str__(self) -> str:
        done = "skipped" if self.answer == "skip" else "dead letters"
        place = f" ({self.place})" if self.place else ""
        return f"{done} {self.records:,} in {self.node}{place}: {self.exception}"


class Metrics(NamedTuple):
    """Totals since the worker started, and its current state."""

    tasks: tuple[str, ...]
    restoring: tuple[RestoreProgress, ...]
    records: int
    """Taken from topics and committed."""
    lag: int | None
    """Records in the topics that its tasks have not processed yet; None while that is not known."""
    commits: int
    commit_ms: float
    """How long the last commit took."""
    skipped: int
    """Records that failed and were skipped."""
    dropped: dict[str, int]
    paused: bool = False
    ahead: int = 0
    """Records that were too far ahead of the wall clock, so that no clock followed them."""
    held_back: tuple[TimeHeldBack, ...] = ()
    """What the stream time of its tasks waits for, the longest first."""
    dead_letters: int = 0
    """Records that failed and were written to a topic for dead letters."""
    failures: tuple[Failures, ...] = ()
    """All records that failed and were left out, the most frequent kind first."""

    def ended(self) -> Metrics:
        """The metrics of a worker that has ended: only its totals remain."""
        return self._replace(tasks=(), restoring=(), lag=0, commit_ms=0.0, paused=True, held_back=())


def together(parts: Iterable[Metrics]) -> Metrics:
    """Several workers as one: numbers are added up, unless `_TOGETHER` says otherwise for a field."""
    parts = list(parts)
    return Metrics(
        **{name: _TOGETHER.get(name, sum)([getattr(part, name) for part in parts]) for name in Metrics._fields}
    )


def _sum_if_known(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _sum_by_reason(counts: list[dict[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return dict(total)


def failures_by(several: Iterable[Failures]) -> tuple[Failures, ...]:
    """One for each kind."""
    counts = Counter[tuple[str, str, str, str]]()
    for *kind, count in several:
        counts[tuple(kind)] += count  # type: ignore[index]
    return tuple(Failures(*kind, count) for kind, count in counts.most_common())


def held_back_by(several: Iterable[TimeHeldBack]) -> tuple[TimeHeldBack, ...]:
    """One for each task that is waited for."""
    by_task: dict[str, list[TimeHeldBack]] = {}
    for one in several:
        by_task.setdefault(one.task, []).append(one)
    return tuple(sorted(map(_one_of, by_task.values()), key=lambda one: (one.since, one.task)))


def _one_of(same: list[TimeHeldBack]) -> TimeHeldBack:
    says_most = min(same, key=lambda one: list(_WHY).index(one.why))
    return says_most._replace(
        behind_ms=max([one.behind_ms for one in same if one.behind_ms is not None], default=None),
        since=min(one.since for one in same),
        tasks=sum(one.tasks for one in same),
    )


_TOGETHER: dict[str, Callable[[list[Any]], Any]] = {
    "tasks": lambda several: tuple(sorted(chain(*several))),
    "restoring": lambda several: tuple(chain(*several)),
    "lag": _sum_if_known,
    "commit_ms": lambda several: max(several, default=0.0),
    "dropped": _sum_by_reason,
    "held_back": lambda several: held_back_by(chain(*several)),
    "failures": lambda several: failures_by(chain(*several)),
    "paused": lambda several: bool(several) and all(several),
}
"""How the values of a field become one, where they are not added up; a commit takes as long as the slowest."""
