"""Scans the rows, as bytes, of one task's part of a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streamtopo.engine.task.options import TaskId
from streamtopo.stores import Reader, StoreSpec
from streamtopo.stores.rows.extent import Extent, latest_possible, oldest_live
from streamtopo.stores.rows.layout import SEGMENT_BYTES, prefix_of, segment_start, timed_prefix_of

RowIterator = Iterator[tuple[bytes, bytes]]
"""Keys as stored, after the number of their segment if the store has segments, with their rows."""


class StorePart(NamedTuple):
    """The part of a store that belongs to one task."""

    store: str
    task: TaskId
    only_here: bool = False
    """Whether a missing key is not searched for in other tasks."""


class StoreTimes(NamedTuple):
    """The time of a store as of its last commit, and the latest time that a row can have."""

    committed: int
    reached: int


class ScanBounds(NamedTuple):
    """The rows with start <= stored key < stop (None: no limit), and in the extent if there is one."""

    start: bytes = b""
    stop: bytes | None = None
    reverse: bool = False
    extent: Extent | None = None

    def after(self, key: bytes) -> ScanBounds:
        """Return the bounds of the rows after this one."""
        return self._replace(stop=key) if self.reverse else self._replace(start=key + b"\0")

    def starting_at(self, key: bytes) -> ScanBounds:
        """Return the bounds of this row and those after it."""
        return self._replace(stop=key + b"\0") if self.reverse else self._replace(start=key)


def rows_in(reader: Reader, spec: StoreSpec, bounds: ScanBounds, times: StoreTimes) -> RowIterator:
    """Yield rows in the order of their stored keys, without those past the store's retention."""
    prefix, prefix_length = prefix_of(spec.name), segment_bytes(spec)
    extent = bounds.extent and _visible(spec, bounds.extent, times)
    places = extent.places(spec, _segments(reader, spec, extent, bounds.reverse)) if extent else [(b"", None)]
    for low, high in places:
        start, stop = max(low, bounds.start), min((end for end in (high, bounds.stop) if end is not None), default=None)
        past = timed_prefix_of(spec.name) if stop is None else prefix + stop
        for stored, row in reader.scan(prefix + start, past, reverse=bounds.reverse):
            key = stored[len(prefix) :]
            if extent is None or extent.has(spec, key[prefix_length:]):
                yield key, row


def segment_bytes(spec: StoreSpec) -> int:
    """Return the number of bytes before a key in the store."""
    return SEGMENT_BYTES if spec.segment else 0


def _segments(reader: Reader, spec: StoreSpec, extent: Extent, reverse: bool) -> Iterator[int]:
    """Yield the numbers of the segments with rows. The extent may be long: without a commit it starts in 1970."""
    prefix, numbers = prefix_of(spec.name), extent.segments(spec)
    while numbers and spec.segment:
        start, past = segment_start(numbers[0]), segment_start(numbers[-1] + 1)
        first = next(reader.scan(prefix + start, prefix + past, reverse=reverse), None)
        if first is None:
            return
        number = int.from_bytes(first[0][len(prefix) :][:SEGMENT_BYTES])
        yield number
        numbers = range(numbers[0], number) if reverse else range(number + 1, numbers[-1] + 1)


def _visible(spec: StoreSpec, extent: Extent, times: StoreTimes) -> Extent:
    start, stop = oldest_live(spec, times.committed), latest_possible(times.reached)
    return extent._replace(start=max(extent.start, start), stop=min(extent.stop, stop))
