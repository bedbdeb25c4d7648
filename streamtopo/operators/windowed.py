"""What all windowed aggregations share: what they do with a record, their stream time, and their late records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamtopo.operators.aggregate import Add, Dropped
from streamtopo.operators.keeping import Keeping
from streamtopo.records import NOTHING, Chunk, Step, concatenate, within
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


def progress_clocks(store: str, parents: int) -> tuple[str, ...]:
    return tuple(f"{store}/{side}" for side in range(parents))


class Progress:
    """Stream time as the operator sees it: for each parent, the latest timestamp so far."""

    def __init__(self, bindings: Bindings, store: str, parents: int) -> None:
        self._clocks: list[OperatorClock] = [bindings.clock(name) for name in progress_clocks(store, parents)]

    def times(self, chunk: Chunk) -> list[int]:
        """The stream time at each row, itself included."""
        if len(self._clocks) > 1:
            sides = zip(chunk.sides or (), chunk.timestamps, strict=True)
            return [self._clocks[side].observe(time) for side, time in sides]
        (clock,) = self._clocks
        return clock.follow(chunk.timestamps)

    def advance(self, time: int) -> None:
        for clock in self._clocks:
            clock.time = max(clock.time, time)

    @property
    def time(self) -> int:
        return max(clock.time for clock in self._clocks)


class Extreme:
    """The latest times in the keys of a store: up to stream time, by which older rows expire, and past it."""

    def __init__(self, bindings: Bindings, store: str) -> None:
        self.newest = bindings.clock(f"{store}/newest")
        self.latest = bindings.clock(f"{store}/latest")
        """Of rows too far ahead for any clock to follow: it only says how far to look for rows."""

    def put(self, time: int, now: int) -> None:
        """A row got this time in its key when stream time was `now`."""
        clock = self.newest if time <= now else self.latest
        if time > clock.time:
            clock.time = time

    def put_all(self, times: list[int], now: int) -> None:
        if max(times, default=-1) > now:
            self.put(max(times), now)
            times = within(times, now)
        self.put(max(times, default=-1), now)


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
