"""Two tables joined by their keys: each update of either is joined with the other's row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streamtopo.operators.joins.lookup import Lookup
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.operators.tables.conversions import old_values, put
from streamtopo.operators.tables.derived import unsent
from streamtopo.records import OUTDATED, Chunk, ChunkFunction, PlacedPuts, private
from streamtopo.steps import WatchingFunction, WatchingStep
from streamtopo.stores.rows.state import Row, State

ValueJoiner = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class TableSide:
    """One of two joined tables, as it sees the other."""

    joiner: ValueJoiner
    """(own value, other's value) -> value."""
    own_required: bool
    other_required: bool

    def joined(self, own: Any, other: Any) -> Any:
        if other is None and (self.other_required or own is None):
            return None
        return None if own is None and self.own_required else self.joiner(own, other)


def join_side(side: TableSide, lookup: Lookup, dropped: Dropped, *, sends_old: bool) -> WatchingStep:
    """Updates of one table, joined. Updates without a joined row, before and after them, are dropped."""
    joined = side.joined

    def step(chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        chunk, others = _usable(chunk, lookup.find(chunk, puts), side, dropped)
        old = None
        if sends_old:
            old = [
                joined(own, None if row is None else private(row[0]))
                for own, row in zip(old_values(chunk), others, strict=True)
            ]
        values = [joined(own, None if row is None else row[0]) for own, row in zip(chunk.values, others, strict=True)]
        times = [
            time if row is None or row[1] < time else row[1] for time, row in zip(chunk.timestamps, others, strict=True)
        ]
        return chunk.with_rows(values, times).with_old(old)

    return WatchingFunction(step)


def _usable(
    chunk: Chunk, others: list[Row | None], side: TableSide, dropped: Dropped
) -> tuple[Chunk, list[Row | None]]:
    """Without updates that were out of order, and those that find nothing to join."""
    olds = chunk.old or [None] * len(chunk)
    mask = [
        old is not OUTDATED and (row is not None or (not side.other_required and (new is not None or old is not None)))
        for new, old, row in zip(chunk.values, olds, others, strict=True)
    ]
    if all(mask):
        return chunk, others
    dropped("out of order", sum(old is OUTDATED for old in olds))
    return chunk.select(mask), [row for row, usable in zip(others, mask, strict=True) if usable]


def join_rows(left: TableSide, key: Any, own: Row | None, other: Row | None) -> Row | None:
    """The row of a joined table that keeps none."""
    if other is None and left.other_required:
        return None
    value = left.joined(own and own[0], other and other[0])
    return None if value is None else (value, max(row[1] for row in (own, other) if row is not None))


def merged(*, sends_old: bool) -> ChunkFunction:
    return lambda chunk: chunk if sends_old else chunk.with_old(unsent(chunk.old))


def kept_merged(state: State) -> Keeping:
    """Rows that are kept; as in Kafka Streams, the old values sent with each update are the joined ones."""

    def step(chunk: Chunk) -> Chunk:
        passed = put(state, chunk)
        return passed.with_old(chunk.old) if len(passed) and state.forwarding.sends_old else passed

    return Keeping(step, state)
