"""Part of a store that has times in its keys: by key and by time, and where its rows lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamtopo.stores import StoreSpec
from streamtopo.stores.layout import segment_start, time_in


class Extent(NamedTuple):
    """Bytes of keys, without their windows, and times, from and to, both included; None is open."""

    first: bytes | None
    last: bytes | None
    start: int
    stop: int

    def segments(self, spec: StoreSpec) -> range:
        """The numbers of those that these times are in: as many as the times are far apart, with or without rows."""
        return range(self.start // spec.segment, self.stop // spec.segment + 1) if spec.segment else range(1)

    def places(self, spec: StoreSpec, segments: Iterable[int]) -> Iterator[tuple[bytes, bytes | None]]:
        """Where all its rows in these segments are, and some others: from a key to before another (None: the end)."""
        low = self.first or b""
        high = None if self.last is None else self.last + b"\xff" * (spec.key.window_bytes + 1)
        if not spec.segment:
            yield low, high
            return
        for number in segments:
            start, past = segment_start(number), segment_start(number + 1)
            yield start + low, past if high is None else start + high

    def has(self, spec: StoreSpec, key: bytes) -> bool:
        """Of a key without its segment."""
        inner = key[: -spec.key.window_bytes]
        inside = (self.first or b"") <= inner and (self.last is None or inner <= self.last)
        return inside and self.start <= time_in(spec, key) <= self.stop


def oldest_live(spec: StoreSpec, now: int) -> int:
    """The oldest time in a key that is still seen when the store's time is `now`."""
    return max(0, now - spec.retention + 1) if spec.retention else 0


def latest_possible(now: int) -> int:
    """No row is later: a sliding window may start right behind the latest record."""
    return now + 1
