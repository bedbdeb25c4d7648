"""The rows of a store as the last commit left them: read here, and nowhere else in this room."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.rows.coding import Coding, Row
from streamtopo.stores.rows.layout import SEGMENT_BYTES, prefix_of, timed_prefix_of


class CommittedRows:
    """A place is a key's bytes, after the number of its segment if the store has segments."""

    def __init__(self, spec: StoreSpec, store: Store) -> None:
        self.spec = spec
        self.coding = Coding(spec)
        self._store = store
        self._prefix = prefix_of(spec.name)
        self._timed_prefix = timed_prefix_of(spec.name)

    def get(self, index: Collection[Any]) -> dict[Any, Row | None]:
        if not index:
            return {}
        keys = [*index]
        prefix = self._prefix
        return self.coding.rows(keys, self._store.get_many([prefix + place for place in self.coding.places(keys)]))

    def scan(self, start: bytes, stop: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Encoded rows with start <= place < stop (None: to the end)."""
        past = self._timed_prefix if stop is None else self._prefix + stop
        cut = len(self._prefix)
        found = self._store.scan(self._prefix + start, past, reverse=reverse)
        return ((place[cut:], data) for place, data in found)

    def keys(self, ranges: Iterable[tuple[bytes, bytes]]) -> list[list[bytes]]:
        """The keys with start <= place < stop, for each of these ranges."""
        prefix = self._prefix
        cut = len(prefix) + self.coding.segment_bytes
        found = self._store.scan_many([(prefix + start, prefix + stop) for start, stop in ranges])
        return [[key[cut:] for key, _ in rows] for rows in found]

    def timed_keys(self, first: bytes, past: bytes) -> Iterator[bytes]:
        """Of a store that also finds rows by time: the keys with their time in front."""
        prefix = self._timed_prefix
        return (key[len(prefix) :] for key, _ in self._store.scan(prefix + first, prefix + past))

    def delete_segments(self, first: bytes, past: bytes) -> None:
        """Delete the rows of whole segments; `first` and `past` are their places."""
        self._store.delete_range(self._prefix + first, self._prefix + past)
        if self.spec.by_time:
            start, stop = (int.from_bytes(place) * self.spec.segment for place in (first, past))
            timed = self._timed_prefix
            self._store.delete_range(timed + start.to_bytes(8), timed + stop.to_bytes(8))

    def end_of_last_segment(self) -> int:
        """The time from which the store has no rows."""
        for place, _ in self.scan(b"", None, reverse=True):
            return (int.from_bytes(place[:SEGMENT_BYTES]) + 1) * self.spec.segment
        return 0
