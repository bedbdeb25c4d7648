"""A range of keys and times in a store that has times in its keys, and where its rows are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamtopo.stores import StoreSpec
from streamtopo.stores.rows.layout import segment_start, time_in


class Extent(NamedTuple):
    """The first and last key, as bytes without the window, and the first and last time; None: no limit."""

    first: bytes | None
    last: bytes | None
    start: int
    stop: int

    def segments(self, spec: StoreSpec) -> range:
        """The numbers of all segments that contain these times, with or without rows."""
        return range(self.start // spec.segment, self.stop // spec.segment + 1) if spec.segment else range(1)

    def places(self, spec: StoreSpec, segments: Iterable[int]) -> Iterator[tuple[bytes, bytes | None]]:
        """Ranges of places (start, stop or None) that contain all its rows in these segments, and other rows too."""
        low = self.first or b""
        high = None if self.last is None else self.last + b"\xff" * (spec.key.window_bytes + 1)
        if not spec.segment:
            yield low, high
            return
        for number in segments:
            start, past = segment_start(number), segment_start(number + 1)
            yield start + low, past if high is None else start + high

    def has(self, spec: StoreSpec, key: bytes) -> bool:
        """Whether a key, without its segment, is in this range."""
        inner = key[: -spec.key.window_bytes]
        inside = (self.first or b"") <= inner and (self.last is None or inner <= self.last)
        return inside and self.start <= time_in(spec, key) <= self.stop


def oldest_live(spec: StoreSpec, now: int) -> int:
    """The oldest time in a key that can still be read when the store's time is `now`."""
    return max(0, now - spec.retention + 1) if spec.retention else 0


def latest_possible(now: int) -> int:
    """No row is later: a sliding window may start one millisecond after the latest record."""
    return now + 1
