"""Two tables joined by their keys: each update of either is joined with the other's row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamtopo.operators.aggregate import Dropped
from streamtopo.operators.derived import unsent
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.lookup import Lookup
from streamtopo.operators.tables import old_values, put
from streamtopo.records import OUTDATED, Chunk, Step, private
from streamtopo.stores.state import Row, State

Joiner = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Side:
    """One of two joined tables, as it sees the other."""

    joiner: Joiner
    """(own value, other's value) -> value."""
    own_required: bool
    other_required: bool

    def joined(self, own: Any, other: Any) -> Any:
        if other is None and (self.other_required or own is None):
            return None
        return None if own is None and self.own_required else self.joiner(own, other)


def join_side(side: Side, lookup: Lookup, dropped: Dropped, *, sends_old: bool) -> Step:
    """Updates of one table, joined. Nothing comes of one where there was no joined row, and is none."""
    joined = side.joined

    def step(chunk: Chunk) -> Chunk:
        chunk, others = lookup.split(chunk)
        chunk, others = _usable(chunk, others, side, dropped)
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

    return step


def _usable(chunk: Chunk, others: list[Row | None], side: Side, dropped: Dropped) -> tuple[Chunk, list[Row | None]]:
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


def join_rows(left: Side, key: Any, own: Row | None, other: Row | None) -> Row | None:
    """The row of a joined table that keeps none."""
    if other is None and left.other_required:
        return None
    value = left.joined(own and own[0], other and other[0])
    return None if value is None else (value, max(row[1] for row in (own, other) if row is not None))


def merged(*, sends_old: bool) -> Step:
    return lambda chunk: chunk if sends_old else chunk.with_old(unsent(chunk.old))


def kept_merged(state: State) -> Keeping:
    """Rows that are kept; as in Kafka Streams, the old values sent with each update are the joined ones."""

    def step(chunk: Chunk) -> Chunk:
        passed = put(state, chunk)
        return passed.with_old(chunk.old) if len(passed) and state.sends_old else passed

    return Keeping(step, state)
