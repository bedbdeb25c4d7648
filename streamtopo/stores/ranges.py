"""What a store is asked for by ranges of keys: its rows in order, with this commit's changes among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any

from streamtopo.records import Columns, private
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.coding import Coding, Row
from streamtopo.stores.layout import segment_start, time_in, timed, timed_prefix_of, untimed


class Ranges(ABC):
    """The half of a State that works on the order of keys."""

    spec: StoreSpec
    prefix: bytes
    _past: bytes
    _store: Store
    _coding: Coding
    _rows: dict[Any, Row | None]
    _older: dict[Any, Row | None]
    _dirty: dict[Any, int]
    _sorted: list[bytes] | None
    """The places of this commit's changes, once somebody asked for a range."""
    _timed: list[bytes] | None
    """Their keys with the time in front, once somebody asked for those."""
    _live: bytes | None
    _expired: bytes
    _dropped: bytes
    _gone: list[Columns]

    @abstractmethod
    def look(self, index: Iterable[Hashable]) -> dict[Any, Row | None]:
        """All kept rows, these among them, only to be read."""

    @abstractmethod
    def copied(self, row: Row | None) -> Row | None:
        """To hand out: nobody can change the kept row through it."""

    @abstractmethod
    def _settle(self) -> None:
        """All changes are among the rows."""

    def scan(self, start: bytes, stop: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, Row]]:
        """Rows with start <= key bytes < stop (None: to the end) as they are now, this commit's included.

        In a store with segments both bounds begin with a segment; the keys that come out do not.
        """
        self._settle()
        if self._sorted is None:
            self._sorted = sorted(self._coding.places(list(self._dirty)))
        last = len(self._sorted) if stop is None else bisect_left(self._sorted, stop)
        changed = self._sorted[bisect_left(self._sorted, start) : last]
        new = {key: row and (private(row[0]), row[1]) for key, row in map(self._kept, changed)}
        cut = len(self.prefix)
        past = self._past if stop is None else self.prefix + stop
        stored = self._store.scan(self.prefix + start, past, reverse=reverse)
        old = ((key[cut:], self._coding.row(data)) for key, data in stored if key[cut:] not in new)
        merged = merge(old, sorted(new.items(), reverse=reverse), key=_key, reverse=reverse)
        return ((key[self._coding.segment_bytes :], row) for key, row in merged if row is not None)

    def segments(self, first: int) -> Iterator[int]:
        """The numbers of the segments that have rows, in order, from the first one that may be given."""
        while (row := next(self.scan(segment_start(first), None), None)) is not None:
            first = time_in(self.spec, row[0]) // self.spec.segment
            yield first
            first += 1

    def by_time(self, start: int, stop: int) -> list[tuple[Hashable, Row]]:
        """Rows with start <= time in their key < stop, as they are now, by time and then by the rest of the key."""
        spec, prefix = self.spec, timed_prefix_of(self.spec.name)
        first, past = (max(0, time).to_bytes(8) for time in (start, stop))
        found = {key[len(prefix) :] for key, _ in self._store.scan(prefix + first, prefix + past)}
        if self._timed is None:
            self._timed = sorted(timed(spec, key) for key in self._coding.keys(list(self._dirty)))
        found.update(self._timed[bisect_left(self._timed, first) : bisect_left(self._timed, past)])
        keys = [untimed(spec, key) for key in sorted(found)]
        index = self._coding.index_of(keys)
        rows = self.look(index)
        return [(key, row) for key in index if (row := self.copied(rows[key])) is not None]

    def committed_keys(self, ranges: Iterable[tuple[bytes, bytes]]) -> list[list[bytes]]:
        """The keys with start <= segment and key bytes < stop that are in the store, whatever this commit changed."""
        prefix = self.prefix
        cut = len(prefix) + self._coding.segment_bytes
        found = self._store.scan_many([(prefix + start, prefix + stop) for start, stop in ranges])
        return [[key[cut:] for key, _ in rows] for rows in found]

    def uncommitted_keys(self) -> dict[bytes, bool]:
        """The keys that were changed in this commit so far, and whether they have a row now."""
        changed = list(self._dirty)
        return {
            key: self._rows[index] is not None for key, index in zip(self._coding.keys(changed), changed, strict=True)
        }

    def expire(self, before: int, limit: int) -> None:
        """Delete up to `limit` rows of the segments that end before this time, oldest first; nobody is told.

        The first call in a commit says which segments: from then on nothing may be put into them, and nobody looks
        for their rows. Those are deleted in the changelog now, and in the store when the whole segment is.
        """
        if self._live is None:
            self._live = segment_start(before // self.spec.segment)
        if self._live <= self._expired:
            return
        cut = len(self.prefix)
        stored = self._store.scan(self.prefix + self._expired, self.prefix + self._live)
        old = [key[cut:] for key, _ in islice(stored, limit)]
        self._expired = old[-1] + b"\0" if len(old) == limit else self._live
        if old:
            keys: list[bytes | None] = [key[self._coding.segment_bytes :] for key in old]
            self._gone.append(Columns(keys, [None] * len(keys), [before] * len(keys)))

    def drop_expired(self) -> None:
        """The changelog has what was deleted: so may the store, a few segments at a time."""
        segment = self._expired[: self._coding.segment_bytes]
        if segment <= self._dropped:
            return
        self._store.delete_range(self.prefix + self._dropped, self.prefix + segment)
        if self.spec.by_time:
            timed = timed_prefix_of(self.spec.name)
            first, past = (int.from_bytes(start) * self.spec.segment for start in (self._dropped, segment))
            self._store.delete_range(timed + first.to_bytes(8), timed + past.to_bytes(8))
        self._dropped = segment

    def _kept(self, key: bytes) -> tuple[bytes, Row | None]:
        (index,) = self._coding.index_of([key[self._coding.segment_bytes :]])
        return key, self._rows[index]

    def _sort_in(self, keys: Iterable[Any]) -> None:
        """Among what is sorted already, before they count as changed."""
        if self._sorted is None and self._timed is None:
            return
        added = [key for key in keys if key not in self._dirty]
        for key, place in zip(self._coding.keys(added), self._coding.places(added), strict=True):
            if self._sorted is not None:
                insort(self._sorted, place)
            if self._timed is not None:
                insort(self._timed, timed(self.spec, key))


def _key(item: tuple[bytes, Row | None]) -> bytes:
    return item[0]
