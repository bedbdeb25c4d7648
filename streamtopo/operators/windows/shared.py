"""What all windowed aggregations share: the functions that aggregate, stream time, and late records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.adders import Add
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.records import NOTHING, Chunk, ChunkFunction, concatenate, within
from streamtopo.serdes import identity_of
from streamtopo.stores.rows.state import State
from streamtopo.topology.clocks import OperatorClock
from streamtopo.topology.operator import Bindings

LATE = "late"
"""Metric: windows that were already closed when a record for them came, and late records of stream joins."""


@dataclass(frozen=True)
class Aggregation:
    init: Callable[[], Any]
    adds: tuple[Add, ...]
    """One function for each parent of the node."""
    merge: Add | None = None
    """(key, row, row) -> the row of the merged session."""
    counts: bool = False
    """Whether it only counts."""


def counting() -> Aggregation:
    return Aggregation(lambda: 0, (lambda key, value, row: row + 1,), lambda key, one, other: one + other, counts=True)


def reducing(reducer: Callable[[Any, Any], Any]) -> Aggregation:
    """The first value becomes the first row."""

    def add(key: Any, value: Any, row: Any) -> Any:
        return value if row is None else reducer(row, value)

    return Aggregation(lambda: None, (add,), lambda key, one, other: add(key, other, one))


def stream_time_clocks(store: str, parents: int) -> tuple[str, ...]:
    return tuple(f"{store}/{side}" for side in range(parents))


class StreamTime:
    """Stream time of an operator: the latest timestamp so far, for each parent."""

    def __init__(self, bindings: Bindings, store: str, parents: int) -> None:
        self._clocks: list[OperatorClock] = [
            bindings.clock(name, led=True) for name in stream_time_clocks(store, parents)
        ]

    def see(self, chunk: Chunk) -> tuple[list[int], list[int]]:
        """Stream time after each row; and the latest time seen until then, to which the horizon holds it back."""
        if len(self._clocks) > 1:
            sides = zip(chunk.sides or (), chunk.timestamps, strict=True)
            both = [
                (clock.observe(time), clock.seen)
                for clock, time in ((self._clocks[side], time) for side, time in sides)
            ]
            return [time for time, _ in both], [seen for _, seen in both]
        (clock,) = self._clocks
        seen = clock.see(chunk.timestamps)
        return clock.held_back(seen), seen

    def advance(self, time: int) -> None:
        if time > self.time:
            for clock in self._clocks:
                clock.reach(time)

    @property
    def time(self) -> int:
        return max(clock.time for clock in self._clocks)

    @property
    def seen(self) -> int:
        return max(clock.seen for clock in self._clocks)


class KeyTimes:
    """The latest times in the keys of a store: up to the time seen, by which rows expire, and after it."""

    def __init__(self, bindings: Bindings, store: str) -> None:
        self.newest = bindings.clock(f"{store}/newest")
        self.latest = bindings.register(f"{store}/latest")
        """Of rows that are too far ahead to move stream time. It only limits where rows are looked for."""

    def put(self, time: int, seen: int) -> None:
        """Note the time in the key of a new row, where `seen` is the latest time of a record so far."""
        if time <= seen:
            self.newest.observe(time)
        elif time > self.latest.value:
            self.latest.value = time

    def put_all(self, times: list[int], seen: int) -> None:
        if max(times, default=-1) > seen:
            self.put(max(times), seen)
            times = within(times, seen)
        self.put(max(times, default=-1), seen)


def inner_identities(state: State, keys: list[Any]) -> list[Hashable]:
    """What dicts use for the inner keys: the keys, or, if their types are not exact, their bytes."""
    serde = state.spec.key
    if serde.exact:
        return keys
    return serde.inner_keys(serde.encode_column([(key, 0, 0) for key in keys]))  # type: ignore[return-value]


def entry_of(state: State) -> Callable[[Any], Any]:
    """The function from a key to what the dicts of the state use for it: the key itself, or its bytes."""
    return identity_of(state.spec.key)


def expire(state: State, time: int, rows: int) -> None:
    """Before a chunk: delete expired rows, a few more than the chunk has, so that they do not accumulate.

    Rows exactly as old as the retention cannot be read, but stay: such a session may still have to be forwarded.
    """
    if state.spec.retention:
        state.expiry.expire(max(0, time - state.spec.retention), 2 * rows + 100)


class KeepingWindows(Keeping):
    def __init__(self, function: ChunkFunction, rows: State, advance: ChunkFunction, time: StreamTime) -> None:
        super().__init__(function, rows)
        self._advance = advance
        self._time = time

    @property
    def stream_time(self) -> int:
        return self._time.time

    def advance(self, moment: Chunk) -> Chunk:
        return self._advance(moment)


class DividedWindows(KeepingWindows):
    """Forwards updates to the first child, late records to the second."""

    def before_commit(self) -> Chunk:
        return first_child(super().before_commit())

    def advance(self, moment: Chunk) -> Chunk:
        return first_child(super().advance(moment))


def first_child(updates: Chunk) -> Chunk:
    return updates.routed([0] * len(updates))


class Late:
    """Counts late records and, with `to_topic`, forwards those that were in no open window."""

    def __init__(self, dropped: Dropped, *, to_topic: bool) -> None:
        self._dropped = dropped
        self.to_topic = to_topic

    def count(self, windows: int) -> None:
        self._dropped(LATE, windows)

    def keeping(
        self, step: Callable[[Chunk], tuple[Chunk, Chunk]], state: State, advance: ChunkFunction, time: StreamTime
    ) -> KeepingWindows:
        """`step` returns updates, and the records that were in no open window."""
        if self.to_topic:
            return DividedWindows(lambda chunk: _divided(*step(chunk)), state, advance, time)
        return KeepingWindows(lambda chunk: step(chunk)[0], state, advance, time)


def _divided(updates: Chunk, late: Chunk) -> Chunk:
    if not len(late):
        return first_child(updates)
    both = replace(concatenate([updates, late]), sides=None)
    return both.routed([0] * len(updates) + [1] * len(late))


def late_rows(chunk: Chunk, places: Sequence[int], *, wanted: bool) -> Chunk:
    return replace(chunk.take(places), sides=None, old=None) if wanted and places else NOTHING
