"""The versions of a row, each valid until the next one: how they are stored, added and found."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple

from streamtopo.records.type_parameters import V
from streamtopo.serdes import Serde

Chain = tuple[tuple[int, Any], ...]
"""A row's versions in the order of their times; a version without a value means that there was no row."""

LATEST = -1
"""What `put` returns for a version that is valid until a later one is put."""
REJECTED = -(1 << 63)
"""What `put` returns for a version that is older than the history."""
_VERSION = struct.Struct(">q?I")
"""A version's time, whether it has a value, and the length of the value."""


class Version(NamedTuple, Generic[V]):
    value: V
    timestamp: int
    valid_to: int | None
    """None if this is the latest version."""


def with_version(chain: Chain, time: int, value: Any, oldest: int) -> tuple[Chain, int]:
    """The chain with one more version, and the time when this version ends.

    Versions that ended before the oldest time are removed. The latest one stays however old it is, unless it means
    that there is no row.
    """
    place = bisect_left(chain, (time,))
    after = place + (place < len(chain) and chain[place][0] == time)
    valid_to = chain[after][0] if after < len(chain) else LATEST
    chain = (*chain[:place], (time, value), *chain[after:])
    first = max(bisect_right(chain, oldest, key=_time) - 1, 0)
    gone = len(chain) - first == 1 and chain[first][1] is None and chain[first][0] <= oldest
    return () if gone else chain[first:], valid_to


def as_of(chain: Chain, time: int, oldest: int) -> Version | None:
    """The version that was valid at a time; for times before the oldest only the latest version is found."""
    place = bisect_right(chain, time, key=_time) - 1
    if place < 0 or (time < oldest and place < len(chain) - 1):
        return None
    return _version(chain, place)


def latest(chain: Chain) -> Version | None:
    return _version(chain, len(chain) - 1) if chain else None


def between(chain: Chain, first: int | None, last: int | None, oldest: int) -> Iterator[Version]:
    """The versions that `as_of` finds for any time from first to last, oldest first."""
    for place, (time, _) in enumerate(chain):
        version = _version(chain, place)
        if version is None:
            continue
        until = version.valid_to
        since = max(time, time if first is None else first, time if until is None else oldest)
        if (until is None or since < until) and (last is None or since <= last):
            yield version


def _version(chain: Chain, place: int) -> Version | None:
    time, value = chain[place]
    return None if value is None else Version(value, time, chain[place + 1][0] if place + 1 < len(chain) else None)


def _time(version: tuple[int, Any]) -> int:
    return version[0]


def chain_serde(value: Serde) -> Serde:
    """Encodes chains. They are never changed in place, so they are not copied as values are."""

    def encode(chain: Chain) -> bytes:
        written = value.encode_column([content for _, content in chain])
        return b"".join(
            _VERSION.pack(time, data is not None, len(data or b"")) + (data or b"")
            for (time, _), data in zip(chain, written, strict=True)
        )

    def decode(data: bytes) -> Chain:
        at, times, contents = 0, [], []
        while at < len(data):
            time, there, length = _VERSION.unpack_from(data, at)
            at += _VERSION.size + length
            times.append(time)
            contents.append(data[at - length : at] if there else None)
        return tuple(zip(times, value.decode_column(contents), strict=True))

    return Serde(f"versions of {value.name}", encode, decode, mutable=False, inner=value, kind=value.kind)
