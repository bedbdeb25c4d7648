"""What a rollup remembers between its runs."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamtopo.errors import StreamtopoError
from streamtopo.spark.delta.versions import Version

Firsts = Mapping[int, Mapping[str, int]]
"""For each bucket, by partition, the first offset that counts in it: where to start to compute it again."""
Interval = tuple[int | None, int]
"""The first bucket, or None for the beginning of time, and the last one."""


@dataclass(frozen=True)
class State:
    definition: dict[str, Any]
    log: str = ""
    topics: dict[str, int | str] = field(default_factory=dict)
    """The ids of the topics, by name."""
    commit: int = 0
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each partition ("readings/0"), the offsets that all commits together have read, without the end."""
    latest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The same for the last commit."""
    firsts: Firsts = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)
    """The buckets that the last commit computed."""
    before: int | None = None
    """The version of the table that the last commit replaced."""
    incomplete: list[Interval] = field(default_factory=list)
    """Buckets that may lack records, because these were deleted before a run read them."""
    late: list[str] = field(default_factory=list)
    """The folders with records of buckets that could not be computed again."""
    batch: int = -1
    """The last batch of a streaming query that is in the table."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """A different id if the table was removed and computed again."""
    vacuumed: float = field(default_factory=time.time)
    """When old files were last deleted, in seconds since 1970."""
    version: Version | None = field(default=None, compare=False)
    """The version of the table that has this state, which is not stored; None before the first commit."""


def state_text(state: State) -> str:
    return json.dumps({name: value for name, value in vars(state).items() if name != "version"})


def read_state(path: Path) -> State:
    try:
        return state_of(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StreamtopoError(f'"{path}" cannot be read: {error}') from error


def state_of(raw: dict[str, Any]) -> State:
    """The state from JSON, which has no tuples, and only texts as keys."""
    for name in ("offsets", "latest"):
        raw[name] = {source: tuple(span) for source, span in raw[name].items()}
    raw["incomplete"] = [tuple(ends) for ends in raw.get("incomplete", ())]
    raw["firsts"] = {int(number): first for number, first in raw["firsts"].items()}
    return State(**raw)


def within(intervals: Iterable[Interval], number: int) -> bool:
    return any((first is None or first <= number) and number <= last for first, last in intervals)


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """The same buckets in as few intervals as possible.

    >>> joined([(7, 9), (None, 2), (3, 3), (8, 12)])
    [(None, 3), (7, 12)]
    """
    found: list[Interval] = []
    for first, last in sorted(intervals, key=lambda one: (one[0] is not None, one)):
        if found and first is not None and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        elif found and first is None:
            found[-1] = None, max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
