"""What the two tasks of a foreign-key join tell each other: subscriptions to a foreign key, and their responses."""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from streamtopo.serdes import Serde

_HASH_BYTES = 16
_PARTITION_BYTES = 4
_LENGTH_BYTES = 4
NO_HASH = bytes(_HASH_BYTES)
"""Of no left value, and of one without a foreign key."""


class Instruction(IntEnum):
    """What is to be done with a subscription."""

    CANCEL = 0
    """Nobody is told: another subscription of the same row follows."""
    CANCEL_AND_TELL = 1
    TELL = 2
    """Tell what the foreign row is, if there is none too."""
    TELL_IF_THERE = 3


class Subscription(NamedTuple):
    """Of a row of the left table, known by its key's bytes, to a row of the other."""

    instruction: Instruction
    hash: bytes
    key: bytes
    partition: int
    """The left row's, where the response goes."""

    def encode(self) -> bytes:
        return bytes([self.instruction]) + self.hash + self.key + self.partition.to_bytes(_PARTITION_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        key = data[1 + _HASH_BYTES : -_PARTITION_BYTES]
        return cls(Instruction(data[0]), data[1 : 1 + _HASH_BYTES], key, int.from_bytes(data[-_PARTITION_BYTES:]))


class Response(NamedTuple):
    """The other table's value for a left row, and the hash of the left value that it answers."""

    hash: bytes
    there: bool
    data: bytes
    """The value or, where there is none, the foreign key."""
    partition: int = -1
    """Where to; not in the message."""

    def encode(self) -> bytes:
        return self.hash + bytes([self.there]) + self.data

    @classmethod
    def decode(cls, data: bytes) -> Response:
        return cls(data[:_HASH_BYTES], bool(data[_HASH_BYTES]), data[_HASH_BYTES + 1 :])


def response(to: Subscription, foreign_key: bytes | None, value: bytes | None) -> Response:
    return Response(to.hash, value is not None, (foreign_key or b"") if value is None else value, to.partition)


SUBSCRIPTION = Serde("subscription", Subscription.encode, Subscription.decode, mutable=False)
RESPONSE = Serde("response", Response.encode, Response.decode, mutable=False)


def hashes_of(serde: Serde, values: list[object]) -> list[bytes]:
    """What tells one value of a row from the next; zeros where there is no row."""
    if serde.mutable:  # values that a function made may differ, as bytes, from those that come back from a store
        values = serde.decode_column(serde.encode_column(values))
    encoded = serde.encode_column(values)
    return [NO_HASH if data is None else blake2b(data, digest_size=_HASH_BYTES).digest() for data in encoded]


def prefix_of(foreign_key: bytes) -> bytes:
    """What the keys of all subscriptions to a foreign key begin with."""
    return len(foreign_key).to_bytes(_LENGTH_BYTES) + foreign_key


def prefix_in(key: bytes) -> bytes:
    """The prefix of a subscription's key."""
    return key[: _LENGTH_BYTES + int.from_bytes(key[:_LENGTH_BYTES])]


def past(prefix: bytes) -> bytes | None:
    """The first bytes behind all that begin with these; None if there are none."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
