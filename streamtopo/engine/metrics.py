"""What a worker has done and has still to do, as plain numbers."""

from __future__ import annotations

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
    lag: int
    """Records in the topics that its tasks have not taken yet."""
    commits: int
    commit_ms: float
    """How long the last commit took."""
    skipped: int
    dropped: dict[str, int]
