"""The partition of a key, by Java's murmur2: topics are co-partitioned with those of every other Kafka client."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

_MASK = 0xFFFFFFFF
_MIX = 0x5BD1E995
_REMEMBERED = 200_000


def murmur2(key: bytes) -> int:
    """The hash as Kafka's Java client computes it, made positive.

    >>> murmur2(b"kafka"), murmur2(b"")
    (1348980580, 275646681)
    """
    size = len(key)
    hashed = 0x9747B28C ^ size
    for word in _words(size)(key):
        word = word * _MIX & _MASK
        hashed = hashed * _MIX & _MASK ^ (word ^ word >> 24) * _MIX & _MASK
    if rest := size & 3:
        hashed = (hashed ^ int.from_bytes(key[-rest:], "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF


@functools.lru_cache(maxsize=256)
def _words(size: int) -> Callable[[bytes], tuple[int, ...]]:
    """Unpacks the complete 4-byte words of keys of this size."""
    return struct.Struct(f"<{size // 4}I").unpack_from


class _Partitions(dict[bytes, int]):
    """A bounded cache of keys' partitions: keys repeat, and hashing in Python takes as long as twenty look-ups."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, key: bytes) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        # A copy: keys next to each other in memory are found faster, and the buffers of their records are freed.
        partition = self[bytes(bytearray(key))] = murmur2(key) % self._count
        return partition


@functools.lru_cache(maxsize=16)
def _partitions(count: int) -> _Partitions:
    return _Partitions(count)


def partitions_of(keys: list[bytes | None], count: int, keyless: int) -> list[int]:
    """The partition of each key; records without a key stay with `keyless`, the partition they came from."""
    if count == 1:
        return [0] * len(keys)
    known = _partitions(count)
    try:
        return list(map(known.__getitem__, keys))  # type: ignore[arg-type]
    except TypeError:  # None has no hash
        return [keyless % count if key is None else known[key] for key in keys]


def partition_of(key: bytes | None, count: int, keyless: int = 0) -> int:
    return keyless % count if key is None else _partitions(count)[key]
