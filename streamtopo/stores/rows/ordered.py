"""The rows of a state in the order of their keys, or of the times in their keys."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from streamtopo.stores.rows.coding import Row
from streamtopo.stores.rows.committed_rows import CommittedRows
from streamtopo.stores.rows.layout import segment_start, time_in, timed, untimed

if TYPE_CHECKING:
    from streamtopo.stores.rows.state import State


class Ordered:
    """Finds committed rows in the store, and puts those that changed in this commit in their places."""

    def __init__(self, state: State, committed: CommittedRows) -> None:
        self._state = state
        self._committed = committed
        self._coding = committed.coding
        self.restart()

    def restart(self) -> None:
        """The state has other changes now: those of a new commit, or without those that were undone."""
        self._places = SortedKeys(self._coding.places)
        self._timed = SortedKeys(self._timed_keys)

    def scan(self, start: bytes, stop: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, Row]]:
        """Rows with start <= key bytes < stop (None: to the end) as they are now, this commit's included.

        In a store with segments both bounds begin with a segment; the keys that come out do not.
        """
        self._state.settle()
        segment_bytes = self._coding.segment_bytes
        changed = self._places.between(self._state.changes.last, start, stop)
        index = self._coding.index_of([place[segment_bytes:] for place in changed])
        rows = self._state.look(index)
        new = {place: self._state.copied(rows[key]) for place, key in zip(changed, index, strict=True)}
        stored = self._committed.scan(start, stop, reverse=reverse)
        old = ((place, self._coding.row(data)) for place, data in stored if place not in new)
        merged = merge(old, sorted(new.items(), reverse=reverse), key=_place, reverse=reverse)
        return ((place[segment_bytes:], row) for place, row in merged if row is not None)

    def segments(self, first: int) -> Iterator[int]:
        """The numbers of the segments that have rows, in order, from `first` on."""
        spec = self._committed.spec
        while (row := next(self.scan(segment_start(first), None), None)) is not None:
            first = time_in(spec, row[0]) // spec.segment
            yield first
            first += 1

    def by_time(self, start: int, stop: int) -> list[tuple[Hashable, Row]]:
        """Rows with start <= time in their key < stop, as they are now, by time and then by the rest of the key."""
        self._state.settle()
        first, past = (max(0, time).to_bytes(8) for time in (start, stop))
        found = set(self._committed.timed_keys(first, past))
        found.update(self._timed.between(self._state.changes.last, first, past))
        spec = self._committed.spec
        index = self._coding.index_of([untimed(spec, key) for key in sorted(found)])
        rows, copied = self._state.look(index), self._state.copied
        return [(key, row) for key in index if (row := copied(rows[key])) is not None]

    def committed_keys(self, ranges: Iterable[tuple[bytes, bytes]]) -> list[list[bytes]]:
        """The keys with start <= segment and key bytes < stop that are in the store, whatever this commit changed."""
        return self._committed.keys(ranges)

    def uncommitted_keys(self) -> dict[bytes, bool]:
        """The keys that changed in this commit so far, and whether they have a row now."""
        self._state.settle()
        changed = list(self._state.changes.last)
        rows = self._state.look(changed)
        return {key: rows[index] is not None for key, index in zip(self._coding.keys(changed), changed, strict=True)}

    def _timed_keys(self, index: list[Any]) -> list[bytes]:
        return [timed(self._committed.spec, key) for key in self._coding.keys(index)]


class SortedKeys:
    """The changed keys of one commit as bytes, sorted at the first use and then kept sorted."""

    def __init__(self, encoded: Callable[[list[Any]], list[bytes]]) -> None:
        self._encoded = encoded
        self._sorted: list[bytes] = []
        self._count = 0

    def between(self, changed: dict[Any, int], start: bytes, stop: bytes | None) -> list[bytes]:
        """The keys of `changed` with start <= bytes < stop. Since the last call, `changed` may only have grown."""
        if len(changed) > self._count:
            new = self._encoded(list(islice(reversed(changed), len(changed) - self._count)))
            if self._count:
                for key in new:
                    insort(self._sorted, key)
            else:
                self._sorted = sorted(new)
            self._count = len(changed)
        last = len(self._sorted) if stop is None else bisect_left(self._sorted, stop)
        return self._sorted[bisect_left(self._sorted, start) : last]


def _place(item: tuple[bytes, Row | None]) -> bytes:
    return item[0]
