"""What a worker has done and still has to do, as plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple


class RestoreProgress(NamedTuple):
    """How far a store is restored from its changelog."""

    store: str
    partition: int
    done: int
    total: int


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
    dropped: dict[str, int]
    paused: bool = False
    ahead: int = 0
    """Records that were too far ahead of the wall clock, so that no clock followed them."""

    def ended(self) -> Metrics:
        """The metrics of a worker that has ended: only its totals remain."""
        return self._replace(tasks=(), restoring=(), lag=0, commit_ms=0.0, paused=True)


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


_TOGETHER: dict[str, Callable[[list[Any]], Any]] = {
    "tasks": lambda several: tuple(sorted(chain(*several))),
    "restoring": lambda several: tuple(chain(*several)),
    "lag": _sum_if_known,
    "commit_ms": lambda several: max(several, default=0.0),
    "dropped": _sum_by_reason,
    "paused": lambda several: bool(several) and all(several),
}
"""How the values of a field become one, where they are not added up; a commit takes as long as the slowest."""
