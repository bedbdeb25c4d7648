"""What all windowed aggregations share: what they do with a record, their stream time, and their late records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamtopo.operators.aggregate import Add, Dropped
from streamtopo.operators.keeping import Keeping
from streamtopo.records import NOTHING, Chunk, Step, concatenate, latest_so_far
from streamtopo.stores.state import State
from streamtopo.topology import Bindings, OperatorClock

LATE = "late"
"""Counts windows that were closed when a record for them came, and records that a join of streams does not keep."""


@dataclass(frozen=True)
class Aggregation:
    init: Callable[[], Any]
    adds: tuple[Add, ...]
    """One for each parent of the node."""
    merge: Add | None = None
    """(key, row, row) -> a session of two."""
    counts: bool = False
    """It counts, and nothing else."""


def counting() -> Aggregation:
    return Aggregation(lambda: 0, (lambda key, value, row: row + 1,), lambda key, one, other: one + other, counts=True)


def reducing(reducer: Callable[[Any, Any], Any]) -> Aggregation:
    """The first value is the first row, as it is."""

    def add(key: Any, value: Any, row: Any) -> Any:
        return value if row is None else reducer(row, value)

    return Aggregation(lambda: None, (add,), lambda key, one, other: add(key, other, one))


class Progress:
    """Stream time as the operator sees it: for each parent, the latest timestamp so far."""

    def __init__(self, bindings: Bindings, store: str, parents: int) -> None:
        self._clocks: list[OperatorClock] = [bindings.clock(f"{store}/{side}") for side in range(parents)]

    def times(self, chunk: Chunk) -> list[int]:
        """The stream time at each row, itself included."""
        if len(self._clocks) > 1:
            return [self._passed(side, time) for side, time in zip(chunk.sides or (), chunk.timestamps, strict=True)]
        (clock,) = self._clocks
        times = latest_so_far(chunk.timestamps, clock.time)
        clock.time = max([clock.time, *times[-1:]])
        return times

    def advance(self, time: int) -> None:
        for clock in self._clocks:
            clock.time = max(clock.time, time)

    @property
    def time(self) -> int:
        return max(clock.time for clock in self._clocks)

    def _passed(self, side: int, time: int) -> int:
        clock = self._clocks[side]
        clock.time = max(clock.time, time)
        return clock.time


def identities(state: State, keys: list[Any]) -> list[Hashable]:
    """What stands for the inner keys in dicts: themselves, or the bytes that their windowed keys begin with."""
    serde = state.spec.key
    if serde.exact:
        return keys
    return serde.inner_keys(serde.encode_column([(key, 0, 0) for key in keys]))  # type: ignore[return-value]


def expire(state: State, time: int, rows: int) -> None:
    """Before a chunk: delete what can no longer be read; a little more than comes in, so that it does not pile up."""
    if state.spec.retention:
        state.expire(max(0, time - state.spec.retention + 1), 2 * rows + 100)


@dataclass(frozen=True)
class KeepingWindows(Keeping):
    advance: Step
    """Moves stream time to that of a row which is no record; returns what that closes."""


@dataclass(frozen=True)
class Divided(KeepingWindows):
    """Updates go to the first child, late records to the second."""

    def __call__(self, chunk: Chunk) -> Chunk:
        return self.step(chunk)

    def flush(self) -> Chunk:
        return first_child(super().flush())


def first_child(updates: Chunk) -> Chunk:
    return updates.routed([0] * len(updates))


class Late:
    """Counts what came too late, and, if they have a place to go, hands on the records that found no window."""

    def __init__(self, dropped: Dropped, *, handed_on: bool) -> None:
        self._dropped = dropped
        self.handed_on = handed_on

    def count(self, windows: int) -> None:
        self._dropped(LATE, windows)

    def keeping(self, step: Callable[[Chunk], tuple[Chunk, Chunk]], state: State, advance: Step) -> KeepingWindows:
        """`step` returns updates, and the records that found no window."""
        if self.handed_on:
            return Divided(lambda chunk: _divided(*step(chunk)), state, lambda moment: first_child(advance(moment)))
        return KeepingWindows(lambda chunk: step(chunk)[0], state, advance)


def _divided(updates: Chunk, late: Chunk) -> Chunk:
    if not len(late):
        return first_child(updates)
    both = replace(concatenate([updates, late]), sides=None)
    return both.routed([0] * len(updates) + [1] * len(late))


def late_rows(chunk: Chunk, places: Sequence[int], *, wanted: bool) -> Chunk:
    return replace(chunk.take(places), sides=None, old=None) if wanted and places else NOTHING
