"""The messages between the two tasks of a foreign-key join: subscriptions to a foreign key, and responses."""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from streamtopo.serdes import Serde

_HASH_BYTES = 16
_PARTITION_BYTES = 4
_LENGTH_BYTES = 4
NO_HASH = bytes(_HASH_BYTES)
"""The hash of no left value, and of a value without a foreign key."""


class Instruction(IntEnum):
    """What to do with a subscription."""

    CANCEL = 0
    """Send no response: another subscription of the same row follows."""
    CANCEL_AND_ANSWER = 1
    ANSWER = 2
    """Send a response, even if there is no foreign row."""
    ANSWER_IF_FOUND = 3


class Subscription(NamedTuple):
    """The subscription of a left row, given by the bytes of its key, to a row of the other table."""

    instruction: Instruction
    hash: bytes
    key: bytes
    partition: int
    """The partition of the left row, to which the response is sent."""

    def encode(self) -> bytes:
        return bytes([self.instruction]) + self.hash + self.key + self.partition.to_bytes(_PARTITION_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        key = data[1 + _HASH_BYTES : -_PARTITION_BYTES]
        return cls(Instruction(data[0]), data[1 : 1 + _HASH_BYTES], key, int.from_bytes(data[-_PARTITION_BYTES:]))


class Response(NamedTuple):
    """The value of the foreign row for a left row, and the hash of the left value that subscribed."""

    hash: bytes
    there: bool
    data: bytes
    """The value, or the foreign key if there is no row."""
    partition: int = -1
    """The partition to send it to; not part of the message."""

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
    """A hash of the value of a row, to recognize changes. Zeros if there is no row."""
    if serde.mutable:  # the bytes of computed values may differ from those of values read from a store
        values = serde.decode_column(serde.encode_column(values))
    encoded = serde.encode_column(values)
    return [NO_HASH if data is None else blake2b(data, digest_size=_HASH_BYTES).digest() for data in encoded]


def prefix_of(foreign_key: bytes) -> bytes:
    """The common prefix of the keys of all subscriptions to a foreign key."""
    return len(foreign_key).to_bytes(_LENGTH_BYTES) + foreign_key


def prefix_in(key: bytes) -> bytes:
    """The prefix of the key of a subscription."""
    return key[: _LENGTH_BYTES + int.from_bytes(key[:_LENGTH_BYTES])]


def past(prefix: bytes) -> bytes | None:
    """The smallest bytes after all those with this prefix; None if there are none."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
