"""What a worker has done and has still to do, as plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Restoring(NamedTuple):
    """One store on its way up to its changelog's end."""

    store: str
    partition: int
    done: int
    total: int


class Metrics(NamedTuple):
    """Totals since the worker started, and how things stand now."""

    tasks: tuple[str, ...]
    restoring: tuple[Restoring, ...]
    records: int
    """Taken from topics and committed."""
    lag: int | None
    """Records in the topics that its tasks have not taken yet; None while that is not known."""
    commits: int
    commit_ms: float
    """How long the last commit took."""
    skipped: int
    dropped: dict[str, int]
    paused: bool = False
    ahead: int = 0
    """Records that were too far ahead of the wall clock for any clock to follow them."""

    def ended(self) -> Metrics:
        """What remains of a worker that is gone: its totals, and that it processes nothing."""
        return self._replace(tasks=(), restoring=(), lag=0, commit_ms=0.0, paused=True)


def together(parts: Iterable[Metrics]) -> Metrics:
    """Several workers as one; a commit takes as long as the slowest."""
    parts = list(parts)
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    return Metrics(
        tuple(sorted(task for part in parts for task in part.tasks)),
        tuple(store for part in parts for store in part.restoring),
        sum(part.records for part in parts),
        _sum(part.lag for part in parts),
        sum(part.commits for part in parts),
        max((part.commit_ms for part in parts), default=0.0),
        sum(part.skipped for part in parts),
        dict(dropped),
        bool(parts) and all(part.paused for part in parts),
        sum(part.ahead for part in parts),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None if one of them is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
