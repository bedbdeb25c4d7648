"""Which rows of one task's part of a store are asked for, and how they are read, as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streamtopo.engine.task import TaskId
from streamtopo.stores import Reader, StoreSpec
from streamtopo.stores.extent import Extent, latest_possible, oldest_live
from streamtopo.stores.layout import SEGMENT_BYTES, prefix_of, segment_start, timed_prefix_of

Rows = Iterator[tuple[bytes, bytes]]
"""Keys as they lie in the store, with the number of their segment in front if the store has segments."""


class Place(NamedTuple):
    """One task's part of a store."""

    store: str
    task: TaskId
    alone: bool = False
    """Whether a key that is not there is not looked for in the other tasks."""


class Times(NamedTuple):
    """How far a store is: as of its last commit, and at least as far as any of its rows."""

    committed: int
    reached: int


class Span(NamedTuple):
    """Rows with start <= key as it lies in the store < stop, None is the end; with an extent, only those in it."""

    start: bytes = b""
    stop: bytes | None = None
    reverse: bool = False
    extent: Extent | None = None

    def after(self, key: bytes) -> Span:
        """What of it comes after a row."""
        return self._replace(stop=key) if self.reverse else self._replace(start=key + b"\0")

    def from_(self, key: bytes) -> Span:
        """What of it comes after a row, and that row."""
        return self._replace(stop=key + b"\0") if self.reverse else self._replace(start=key)


def rows_in(reader: Reader, spec: StoreSpec, span: Span, times: Times) -> Rows:
    """In the order of their keys as they lie in the store. Rows past the store's retention are not seen."""
    prefix, cut = prefix_of(spec.name), segment_bytes(spec)
    extent = span.extent and _seen(spec, span.extent, times)
    places = extent.places(spec, _segments(reader, spec, extent, span.reverse)) if extent else [(b"", None)]
    for low, high in places:
        start, stop = max(low, span.start), min((end for end in (high, span.stop) if end is not None), default=None)
        past = timed_prefix_of(spec.name) if stop is None else prefix + stop
        for stored, row in reader.scan(prefix + start, past, reverse=span.reverse):
            key = stored[len(prefix) :]
            if extent is None or extent.has(spec, key[cut:]):
                yield key, row


def segment_bytes(spec: StoreSpec) -> int:
    """How many bytes stand in front of a key where it lies in the store."""
    return SEGMENT_BYTES if spec.segment else 0


def _segments(reader: Reader, spec: StoreSpec, extent: Extent, reverse: bool) -> Iterator[int]:
    """The numbers of those that have rows. Its times may be far apart: before the first commit they begin in 1970."""
    prefix, numbers = prefix_of(spec.name), extent.segments(spec)
    while numbers and spec.segment:
        start, past = segment_start(numbers[0]), segment_start(numbers[-1] + 1)
        first = next(reader.scan(prefix + start, prefix + past, reverse=reverse), None)
        if first is None:
            return
        number = int.from_bytes(first[0][len(prefix) :][:SEGMENT_BYTES])
        yield number
        numbers = range(numbers[0], number) if reverse else range(number + 1, numbers[-1] + 1)


def _seen(spec: StoreSpec, extent: Extent, times: Times) -> Extent:
    start, stop = oldest_live(spec, times.committed), latest_possible(times.reached)
    return extent._replace(start=max(extent.start, start), stop=min(extent.stop, stop))
