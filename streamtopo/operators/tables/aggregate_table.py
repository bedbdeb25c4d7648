"""Tables grouped by another key: an update subtracts the old value from its group and adds the new value to its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.errors import SerdeError, StreamtopoError
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.operators.tables.conversions import old_values
from streamtopo.records import OUTDATED, Chunk, ChunkFunction, private
from streamtopo.serdes import Serde
from streamtopo.stores.rows.state import Row, State

Change = tuple[Any, Any]
"""A change of a group: the value to add and the value to subtract. One of them may be None."""

# -- before the repartition topic


def regroup(mapper: Callable[[Any, Any], Any], key: Serde, dropped: Dropped) -> ChunkFunction:
    """One change if the old and the new value are in the same group, otherwise two, the old one first."""

    def step(chunk: Chunk) -> Chunk:
        places: list[int] = []
        keys: list[Any] = []
        changes: list[Change] = []
        unusable = outdated = 0
        for place, (own, new, old) in enumerate(zip(chunk.keys, chunk.values, old_values(chunk), strict=True)):
            if old is OUTDATED:
                outdated += 1
                continue
            added = None if new is None else _pair(mapper(own, new))
            removed = None if old is None else _pair(mapper(own, old))
            unusable += (new is not None and added is None) + (old is not None and removed is None)
            found = _group_changes(added, removed, key)
            places += [place] * len(found)
            keys += [group for group, _ in found]
            changes += [change for _, change in found]
        dropped("null key or value", unusable)
        dropped("out of order", outdated)
        return chunk.emit(places, keys, changes)

    return step


def _pair(pair: Any) -> tuple[Any, Any] | None:
    """The group and value that the mapper returned, if it has both."""
    if pair is None:
        return None
    if type(pair) not in (tuple, list) or len(pair) != 2:
        raise StreamtopoError(f"the function returned {pair!r:.80}; return a pair: (key, value)")
    key, value = pair
    return None if key is None or value is None else (key, value)


def _group_changes(
    added: tuple[Any, Any] | None, removed: tuple[Any, Any] | None, key: Serde
) -> list[tuple[Any, Change]]:
    if added is not None and removed is not None and _same(added[0], removed[0], key):
        return [(added[0], (added[1], removed[1]))]
    found = [] if removed is None else [(removed[0], (None, removed[1]))]
    return found if added is None else [*found, (added[0], (added[1], None))]


def _same(one: Any, other: Any, key: Serde) -> bool:
    """Whether two keys have equal bytes."""
    return bool(one == other) if key.exact else key.encode(one) == key.encode(other)


# -- in the repartition topic


_OLD, _NEW, _BOTH = b"\0\1\2"
_LENGTH = 4


def change_serde(value: Serde) -> Serde:
    """Both values in one message. The last byte says which of them exist."""

    def encode(change: Change) -> bytes:
        new, old = (None if one is None else value.encode(one) for one in change)
        if new is None or old is None:
            return (old or b"") + bytes([_OLD]) if new is None else new + bytes([_NEW])
        return len(new).to_bytes(_LENGTH) + new + old + bytes([_BOTH])

    def decode(data: bytes) -> Change:
        kind, data = _kind_of(data), data[:-1]
        if kind == _OLD:
            return None, value.decode(data)
        if kind == _NEW:
            return value.decode(data), None
        end = _LENGTH + int.from_bytes(data[:_LENGTH])
        return value.decode(data[_LENGTH:end]), value.decode(data[end:])

    return Serde(f"change of {value.name}", encode, decode, mutable=value.mutable, kind=value.kind)


def unread_serde(change: Serde) -> Serde:
    """For readers that only need to know which values exist."""
    there = {_OLD: (None, True), _NEW: (True, None), _BOTH: (True, True)}
    return Serde(f"unread {change.name}", change.encode, lambda data: there[_kind_of(data)], mutable=False)


def _kind_of(data: bytes) -> int:
    if not data or data[-1] not in (_OLD, _NEW, _BOTH):
        raise SerdeError(f"{data!r:.80} is not a change; only streamtopo may write repartition topics")
    return data[-1]


# -- after the repartition topic

AddToGroup = Callable[[Any, Any, Row | None], Any]
"""(key, value, the group's row or None) -> the row's value."""


def aggregate_changes(state: State, add: AddToGroup, subtract: Callable[[Any, Any, Any], Any]) -> Keeping:
    """Subtract the old value from the row, then add the new one. None as the new row deletes the row.

    Nothing is subtracted from a group without a row.
    """

    def step(chunk: Chunk) -> Chunk:
        index = state.index(chunk.keys)
        rows = state.load(index)
        snapshot = state.snapshot
        values, timestamps = [], []
        for kept, key, (new, old), time in zip(index, chunk.keys, chunk.values, chunk.timestamps, strict=True):
            row = rows[kept]
            if row is not None:
                time = max(time, row[1])
                if old is not None:
                    taken = subtract(key, old, row[0])
                    row = None if taken is None else (taken, time)
            if new is not None:
                added = add(key, new, row)
                row = None if added is None else (added, time)
            rows[kept] = row
            value = None if row is None else row[0]
            values.append(snapshot(value))
            timestamps.append(time)
        return state.changed(index, chunk.with_rows(values, timestamps))

    return Keeping(step, state)


def counting(state: State) -> Keeping:
    return aggregate_changes(
        state, lambda _, value, row: 1 if row is None else row[0] + 1, lambda _, value, total: total - 1
    )


def reducing(state: State, adder: Callable[[Any, Any], Any], subtractor: Callable[[Any, Any], Any]) -> Keeping:
    return aggregate_changes(
        state,
        lambda _, value, row: value if row is None else adder(row[0], value),
        lambda _, value, total: subtractor(total, value),
    )


def aggregating(
    state: State,
    init: Callable[[], Any],
    adder: Callable[[Any, Any, Any], Any],
    subtractor: Callable[[Any, Any, Any], Any],
) -> Keeping:
    return aggregate_changes(
        state, lambda key, value, row: adder(key, value, private(init()) if row is None else row[0]), subtractor
    )
