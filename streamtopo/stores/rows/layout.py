"""Where rows are stored, and as which bytes: keys with a time are in segments, which are deleted as a whole."""

from __future__ import annotations

import struct
from functools import lru_cache

from streamtopo.records import Columns
from streamtopo.stores import Kind, StoreSpec

_TIME = struct.Struct(">q")

_AFTER_THE_TIME = {Kind.WINDOW: 4, Kind.TIMESTAMPED_WINDOW: 4, Kind.JOIN: 4, Kind.SESSION: 8, Kind.VERSIONED: 0}
"""How many bytes of a key follow its time: a sequence number, or a session's start, which follows its end."""
SEGMENT_BYTES = 8


def layout_of(spec: StoreSpec) -> str:
    """The part of a store's layout in its database that an edit of the topology can change.

    The keys in a changelog do not depend on it, so rows that were stored in another layout are read from there again.
    The retention is part of it because expired rows are deleted in the changelog first, and in the store later.
    """
    if not spec.segment:
        return ""
    return f"rows of {spec.retention} ms in segments of {spec.segment} ms" + (", also by time" if spec.by_time else "")


def prefix_of(store: str) -> bytes:
    """The prefix of a store's keys in its task's database; names have no zero byte, so prefixes do not overlap."""
    return store.encode() + b"\0"


def timed_prefix_of(store: str) -> bytes:
    """The prefix of keys with their time in front: they are stored right after the rows of the same store."""
    return store.encode() + b"\1"


def past_of(store: str) -> bytes:
    """The first key after everything that belongs to a store."""
    return store.encode() + b"\2"


def placed(spec: StoreSpec, keys: list[bytes], prefix: bytes = b"") -> list[bytes]:
    """Keys with the prefix in front and, if the store has segments, the number of their segment after it."""
    if not spec.segment:
        return [prefix + key for key in keys] if prefix else keys
    after = _AFTER_THE_TIME[spec.kind]
    segment, number = spec.segment, int.from_bytes
    time = slice(-after - 8, -after or None)
    times = [key[time] for key in keys]
    if times and number(min(times)) // segment == number(max(times)) // segment:
        start = prefix + segment_start(number(times[0]) // segment)
        return [start + key for key in keys]
    numbers = [number(time) // segment for time in times]
    starts = {number: prefix + segment_start(number) for number in set(numbers)}
    return [starts[number] + key for number, key in zip(numbers, keys, strict=True)]


def time_in(spec: StoreSpec, key: bytes) -> int:
    """The time that a key contains."""
    end = len(key) - _AFTER_THE_TIME[spec.kind]
    return int.from_bytes(key[end - 8 : end])


def timed(spec: StoreSpec, key: bytes) -> bytes:
    """The key with its time in front: a store that also finds rows by time has it in this form too."""
    cut = _AFTER_THE_TIME[spec.kind] + 8
    return key[-cut:] + key[:-cut]


def untimed(spec: StoreSpec, key: bytes) -> bytes:
    cut = _AFTER_THE_TIME[spec.kind] + 8
    return key[cut:] + key[:cut]


def segment_of(retention: int) -> int:
    """How many milliseconds a segment has if the store keeps rows this long: the same as in Kafka Streams."""
    return max(retention // 2, 60_000)


@lru_cache(maxsize=1000)
def segment_start(number: int) -> bytes:
    """The prefix of the keys in a segment, which is also where it starts."""
    return number.to_bytes(SEGMENT_BYTES)


def stored_rows(spec: StoreSpec, changelog: Columns) -> dict[bytes, bytes | None]:
    """The bytes to store for changelog records; timestamped rows have the record's timestamp in front."""
    keys = placed(spec, [key for key in changelog.keys if key is not None], prefix_of(spec.name))
    rows = dict(zip(keys, _stored_values(spec, changelog), strict=True))
    rows.update(rows_by_time(spec, changelog))
    return rows


def _stored_values(spec: StoreSpec, changelog: Columns) -> list[bytes | None]:
    if not spec.timestamped:
        return changelog.values
    times = map(_TIME.pack, changelog.timestamps)
    return [value if value is None else time + value for time, value in zip(times, changelog.values, strict=True)]


def rows_by_time(spec: StoreSpec, changelog: Columns) -> dict[bytes, bytes | None]:
    """Empty rows under keys with the time in front."""
    if not spec.by_time:
        return {}
    prefix = timed_prefix_of(spec.name)
    pairs = zip(changelog.keys, changelog.values, strict=True)
    return {prefix + timed(spec, key): value and b"" for key, value in pairs if key is not None}
