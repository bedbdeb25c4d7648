"""Short ways to write and read records in the tests of logs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from streamtopo.logs import Member, Outcome
from streamtopo.logs.embedded import EmbeddedLog, EmbeddedMember
from streamtopo.logs.kafka import KafkaLog, KafkaMember
from streamtopo.logs.memory import MemoryLog, MemoryMember
from streamtopo.records import Columns, Headers, Position, TopicPartition

OwnLog = MemoryLog | EmbeddedLog
OwnMember = MemoryMember | EmbeddedMember
AnyLog = OwnLog | KafkaLog
AnyMember = OwnMember | KafkaMember
PATIENCE = 60.0

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DONE, NOT_DONE, UNKNOWN = Outcome


def rows(*values: bytes | None, key: bytes | None = None, headers: list[Headers] | None = None) -> Columns:
    """Records of these values; their timestamps count from 0."""
    return Columns([key] * len(values), list(values), list(range(len(values))), headers)


def numbered(count: int) -> Columns:
    return rows(*(b"%d" % number for number in range(count)))


def at_times(*timestamps: int) -> Columns:
    return Columns([None] * len(timestamps), [b"x"] * len(timestamps), list(timestamps))


def keyed(pairs: str) -> Columns:
    """`keyed("a1 b2 a-")`: key a with value 1, b with 2, and a deleted."""
    keys: list[bytes | None] = [pair[:1].encode() for pair in pairs.split()]
    values = [None if pair[1:] == "-" else pair[1:].encode() for pair in pairs.split()]
    return Columns(keys, values, [0] * len(keys))


def values(log: AnyLog, partition: TopicPartition = T0, *, pending: bool = False) -> list[bytes | None]:
    """All that can be read there; `pending` if a transaction is known to be open, else the end is waited for."""
    while True:
        batch = log.read(partition, log.start(partition), 1 << 30)
        if pending or batch.next_offset >= log.end(partition):
            return batch.columns.values


def join(log: AnyLog, *topics: str, group: str = "g") -> AnyMember:
    return log.join(group, [(topic,) for topic in topics or ("t",)])


def own_join(log: OwnLog, *topics: str, group: str = "g") -> OwnMember:
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
    deadline = time.monotonic() + PATIENCE
    while any(isinstance(member, KafkaMember) and not _even(member, members) for member in members):
        assert time.monotonic() < deadline, [member.assignment() for member in members]
        for member in members:
            member.poll(1, 0.02)
    for _ in range(3):
        for member in members:
            held = _owned(member)
            member.release(held - member.assignment())
    return [{str(partition) for partition in member.assignment()} for member in members]


def _owned(member: AnyMember) -> set[TopicPartition]:
    match member:
        case KafkaMember():
            return set(member._ownership.partitions)
        case EmbeddedMember():
            return set(member._share.owned)
        case _:
            return set(member._owned)


def _even(member: KafkaMember, members: Sequence[AnyMember]) -> bool:
    """Whether it has its share of each topic, as many as the cluster gives it."""
    group = [one for one in members if isinstance(one, KafkaMember) and one._consumer.group == member._consumer.group]
    shares = [_owned(one) for one in group]
    subscribed = {name for names in member._consumer.topics for name in names}
    wanted = sum(member._reader._admin.topics.count(name) for name in subscribed)
    together = set().union(*shares)
    return len(together) == sum(map(len, shares)) == wanted and len(_owned(member)) >= wanted // len(shares)


def drain(member: Member, limit: int = 1000) -> list[bytes | None]:
    """Values in the order in which they come, until none does."""
    polled: list[bytes | None] = []
    while (batches := member.poll(limit, 0)) or _behind(member):
        polled += [value for batch in batches for value in batch.columns.values]
    return polled


def _behind(member: Member) -> bool:
    """Kafka's records come when they come."""
    if not isinstance(member, KafkaMember):
        return False
    reader = member._reader
    return any(offset < reader._admin.offsets.end(partition) for partition, offset in reader._next.items())


def at(*offsets: int) -> dict[TopicPartition, Position]:
    """Positions of the partitions 0, 1, … of "t"."""
    return {TopicPartition("t", number): Position(offset) for number, offset in enumerate(offsets)}


def leave(members: Iterable[Member]) -> None:
    for member in members:
        member.leave()
