"""Short ways to write and read records in the tests of logs."""

from __future__ import annotations

from collections.abc import Iterable

from streamtopo.logs import Member, Outcome
from streamtopo.logs.embedded import EmbeddedLog, EmbeddedMember
from streamtopo.logs.memory import MemoryLog, MemoryMember
from streamtopo.records import Columns, Headers, Position, TopicPartition

AnyLog = MemoryLog | EmbeddedLog
AnyMember = MemoryMember | EmbeddedMember

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DONE, NOT_DONE, UNKNOWN = Outcome


def rows(*values: bytes | None, key: bytes | None = None, headers: list[Headers] | None = None) -> Columns:
    """Records of these values; their timestamps count from 0."""
    return Columns([key] * len(values), list(values), list(range(len(values))), headers)


def numbered(count: int) -> Columns:
    return rows(*(b"%d" % number for number in range(count)))


def keyed(pairs: str) -> Columns:
    """`keyed("a1 b2 a-")`: key a with value 1, b with 2, and a deleted."""
    keys: list[bytes | None] = [pair[:1].encode() for pair in pairs.split()]
    values = [None if pair[1:] == "-" else pair[1:].encode() for pair in pairs.split()]
    return Columns(keys, values, [0] * len(keys))


def values(log: AnyLog, partition: TopicPartition = T0) -> list[bytes | None]:
    """All that can be read there."""
    return log.read(partition, log.start(partition), 1 << 30).columns.values


def join(log: AnyLog, *topics: str, group: str = "g") -> AnyMember:
    return log.join(group, [(topic,) for topic in topics or ("t",)])


def reader(log: AnyLog, *partitions: TopicPartition) -> AnyMember:
    """A member of a group of its own, which reads these from the start."""
    member = join(log, *sorted({partition.topic for partition in partitions}), group="readers")
    settled(member)
    for partition in partitions:
        member.seek(partition, log.start(partition))
    return member


def settled(*members: AnyMember) -> list[set[str]]:
    """Their assignments, after everyone has let go of what it should and taken what it may."""
    for _ in range(3):
        for member in members:
            held = set(member._owned)
            member.release(held - member.assignment())
    return [{str(partition) for partition in member.assignment()} for member in members]


def drain(member: Member, limit: int = 1000) -> list[bytes | None]:
    """Values in the order in which they come, until none does."""
    polled: list[bytes | None] = []
    while batches := member.poll(limit, 0):
        polled += [value for batch in batches for value in batch.columns.values]
    return polled


def at(*offsets: int) -> dict[TopicPartition, Position]:
    """Positions of the partitions 0, 1, … of "t"."""
    return {TopicPartition("t", number): Position(offset) for number, offset in enumerate(offsets)}


def leave(members: Iterable[Member]) -> None:
    for member in members:
        member.leave()
