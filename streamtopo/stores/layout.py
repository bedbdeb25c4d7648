"""Where rows lie in a store: keys with a time in them by segments of time, so that old ones go together."""

from __future__ import annotations

from functools import lru_cache

from streamtopo.stores import Kind, StoreSpec

_BEHIND_THE_TIME = {Kind.WINDOW: 4, Kind.TIMESTAMPED_WINDOW: 4, Kind.SESSION: 8, Kind.VERSIONED: 0}
"""Bytes of a key after those of its time: a sequence number; a session's start, which follows its end."""
SEGMENT_BYTES = 8


def prefix_of(store: str) -> bytes:
    """What a store's keys begin with in its task's database; names have no zero byte, so no two overlap."""
    return store.encode() + b"\0"


def placed(spec: StoreSpec, keys: list[bytes]) -> list[bytes]:
    """Keys with the number of their segment in front, if the store has segments."""
    if not spec.segment:
        return keys
    behind = _BEHIND_THE_TIME[spec.kind]
    segment, number = spec.segment, int.from_bytes
    time = slice(-behind - 8, -behind or None)
    return [segment_start(number(key[time]) // segment) + key for key in keys]


@lru_cache(maxsize=1000)
def segment_start(number: int) -> bytes:
    """What the keys of a segment begin with, and where it starts."""
    return number.to_bytes(SEGMENT_BYTES)
