"""The subscriptions to a foreign row, as they were at each update of the row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from streamtopo.operators.joins.subscription import past, prefix_in, prefix_of
from streamtopo.records import Chunk, PlacedPuts
from streamtopo.serdes import Serde
from streamtopo.stores.rows.state import Row, State

SubscriptionRows = dict[bytes, bytes]
"""Subscriptions by their keys in the store."""


class Subscribers:
    """The node of the step must watch the one that keeps the subscriptions."""

    def __init__(self, state: State, foreign: Serde) -> None:
        self._state = state
        self._foreign = foreign

    def find(self, chunk: Chunk, puts: Sequence[PlacedPuts]) -> list[list[bytes]]:
        """For each row of the chunk the subscriptions to its key, in the order of the bytes of their keys."""
        coming = deque(_in_turn(*puts))
        before: dict[Any, Row | None] = {key: some.before[key] for some in puts for key in some.index}
        changing: dict[bytes, SubscriptionRows] = {}
        for key, row in before.items():
            _change(changing, key, _value(row))
        staying: dict[bytes, SubscriptionRows] = {}
        found = []
        prefixes = [prefix_of(key) for key in self._foreign.encode_column(chunk.keys) if key is not None]
        for place, prefix in enumerate(prefixes):
            while coming and coming[0][0] <= place:
                _, key, value = coming.popleft()
                _change(changing, key, value)
            if prefix not in staying:
                staying[prefix] = {key: value for key, value in self._scan(prefix) if key not in before}
            together = staying[prefix] | changing.get(prefix, {})
            found.append([value for _, value in sorted(together.items(), key=itemgetter(0))])
        return found

    def _scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return [(key, row[0]) for key, row in self._state.scan(prefix, past(prefix))]


def _in_turn(puts: PlacedPuts | None = None) -> Iterator[tuple[int, Any, bytes | None]]:
    return iter(()) if puts is None else zip(puts.places, puts.index, puts.values, strict=True)


def _change(changing: dict[bytes, SubscriptionRows], key: bytes, value: bytes | None) -> None:
    kept = changing.setdefault(prefix_in(key), {})
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


def _value(row: Row | None) -> bytes | None:
    return None if row is None else row[0]
