"""Who is subscribed to a foreign row: at each update of one, as it was when that update came."""

from __future__ import annotations

from operator import itemgetter

from streamtopo.operators.subscription import past, prefix_in, prefix_of
from streamtopo.records import Chunk
from streamtopo.serdes import Serde
from streamtopo.stores.state import State

Kept = dict[bytes, bytes]
"""Subscriptions by their keys in the store."""


class Subscribers:
    """For a node with one parent, which watches the node that keeps the subscriptions: the second side is its puts."""

    def __init__(self, state: State, foreign: Serde) -> None:
        self._state = state
        self._foreign = foreign

    def split(self, chunk: Chunk) -> tuple[Chunk, list[list[bytes]]]:
        """The chunk without the puts, and beside each row the subscriptions to its key, by the bytes of their keys."""
        sides = chunk.sides or [0] * len(chunk)
        own = chunk.select([side == 0 for side in sides]) if any(sides) else chunk
        put: set[bytes] = {key for key, side in zip(chunk.keys, sides, strict=True) if side}
        changing: dict[bytes, Kept] = {}
        for key in put:
            _change(changing, key, _value(self._state.first[key]))
        staying: dict[bytes, Kept] = {}
        found = []
        prefixes = iter([prefix_of(key) for key in self._foreign.encode_column(own.keys) if key is not None])
        for side, key, value in zip(sides, chunk.keys, chunk.values, strict=True):
            if side:
                _change(changing, key, value)
                continue
            prefix = next(prefixes)
            if prefix not in staying:
                staying[prefix] = {key: value for key, value in self._scan(prefix) if key not in put}
            together = staying[prefix] | changing.get(prefix, {})
            found.append([value for _, value in sorted(together.items(), key=itemgetter(0))])
        return own, found

    def _scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return [(key, row[0]) for key, row in self._state.scan(prefix, past(prefix))]


def _change(changing: dict[bytes, Kept], key: bytes, value: bytes | None) -> None:
    kept = changing.setdefault(prefix_in(key), {})
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


def _value(row: tuple[bytes, int] | None) -> bytes | None:
    return None if row is None else row[0]
