"""Part of a store that has times in its keys: by key and by time, and where its rows lie."""

from __future__ import annotations

from typing import NamedTuple

from streamtopo.stores import StoreSpec
from streamtopo.stores.layout import segment_start, time_in


class Extent(NamedTuple):
    """Bytes of keys, without their windows, and times, from and to, both included; None is open."""

    first: bytes | None
    last: bytes | None
    start: int
    stop: int

    def places(self, spec: StoreSpec, *, reverse: bool = False) -> list[tuple[bytes, bytes | None]]:
        """Where all its rows lie, and some others: from a key of the store, to before another one (None: the end)."""
        low = self.first or b""
        high = None if self.last is None else self.last + b"\xff" * (spec.key.window_bytes + 1)
        if not spec.segment:
            return [(low, high)]
        segments = range(self.start // spec.segment, self.stop // spec.segment + 1)
        return [
            (segment_start(number) + low, segment_start(number + 1) if high is None else segment_start(number) + high)
            for number in (reversed(segments) if reverse else segments)
        ]

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
