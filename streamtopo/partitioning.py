"""Which partition a key belongs to: Java's murmur2, so that topics co-partition with every other Kafka client."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = 0xFFFFFFFF
_MIX = 0x5BD1E995
_REMEMBERED = 200_000


def murmur2(key: bytes) -> int:
    """The hash as Kafka's Java client computes it, made positive.

    >>> murmur2(b"kafka"), murmur2(b"")
    (1348980580, 275646681)
    """
    size = len(key)
    hashed = (0x9747B28C ^ size) & _MASK
    whole = size & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        hashed = hashed * _MIX & _MASK ^ word
    if whole != size:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF


class _Hashes(dict[bytes, int]):
    """A bounded memory of hashes: keys repeat, and hashing in Python costs ten look-ups."""

    def __missing__(self, key: bytes) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        hashed = self[key] = murmur2(key)
        return hashed


_hashes = _Hashes()


def partitions_of(keys: Iterable[bytes | None], count: int, keyless: int) -> list[int]:
    """The partition of each key; records without a key stay with `keyless`, the partition they came from."""
    if count == 1:
        return [0 for _ in keys]
    hashes = _hashes
    return [keyless % count if key is None else hashes[key] % count for key in keys]


def partition_of(key: bytes | None, count: int, keyless: int = 0) -> int:
    return keyless % count if key is None else _hashes[key] % count
