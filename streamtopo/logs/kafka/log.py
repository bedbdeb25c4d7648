"""A Kafka cluster as a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from threading import Lock

from streamtopo.logs import CLEANING_MEMORY, GroupProgress, GroupState, Topic
from streamtopo.logs.decoded import DecodedBatch, scanned
from streamtopo.logs.groups import check_no_members
from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.appender import Appender
from streamtopo.logs.kafka.group.member import KafkaMember
from streamtopo.logs.kafka.partition_counts import PartitionCounts
from streamtopo.logs.kafka.partition_reader import PartitionReader
from streamtopo.logs.kafka.settings import ClientSettings
from streamtopo.logs.kafka.writer import Writer
from streamtopo.logs.topics import check_equal
from streamtopo.records import Batch, Columns, Position, TopicPartition
from streamtopo.wall_clock import wall_clock

_NOTES = TopicPartition("__streamtopo-notes", 0)
"""Short texts, the last one of each name counts. Topics with two underscores are not listed."""

_CLIENT_LIMIT, _BROKER_LIMIT = 1_000_000, "1048588"
"""The defaults of librdkafka and of brokers."""
_AROUND = 200
"""Bytes, and some more."""


class KafkaLog:
    one_machine = False

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._admin = Admin(settings)
        self.id = self._admin.id
        self._reader = PartitionReader(settings, self._admin)
        self._writer: Writer | None = None
        self._one_writer = Lock()
        self._partitions = PartitionCounts(self._admin)
        self._members: set[KafkaMember] = set()

    keeps_deletions = 0

    def cleaned(self, partition: TopicPartition) -> None:
        """None: brokers do not say."""

    # -- topics

    def topics(self) -> Mapping[str, Topic]:
        return self._admin.topics.all()

    def create(self, topic: Topic) -> None:
        if self._admin.topics.create(topic):
            return
        check_equal(self._admin.topics.existing(topic.name), topic)

    def delete(self, topic: str) -> None:
        self._admin.topics.delete(topic)
        self._partitions.forget(topic)

    def largest(self, topic: str) -> int:
        """The client's limit, or that of the topic. Both count what is around the record in a batch of its own."""
        of_client = int(self._settings.producer().get("message.max.bytes", _CLIENT_LIMIT))
        of_topic = int(self._admin.topics.existing(topic).setting("max.message.bytes", _BROKER_LIMIT))
        return max(1, min(of_client, of_topic) - _AROUND)

    # -- records

    def append(self, target: TopicPartition, columns: Columns) -> int:
        self._partitions.check(target)
        if not columns.keys:
            return self.end(target)
        with self._one_writer:
            self._writer = self._writer or Writer(self._settings)
            return self._writer.append(target, columns)

    def appender(self, name: str) -> Appender:
        """To append records exactly once. Only one appender of a name can write: a new one stops the others."""
        return Appender(self._settings, self._admin, self._reader, name)

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        self._partitions.check(source)
        return self._reader.read(source, offset, limit, most_bytes)

    def scan(self, source: TopicPartition, start: int, end: int) -> Iterator[DecodedBatch]:
        return scanned(self, source, start, end)

    def start(self, partition: TopicPartition) -> int:
        self._partitions.check(partition)
        return self._admin.offsets.start(partition)

    def end(self, partition: TopicPartition) -> int:
        self._partitions.check(partition)
        return self._admin.offsets.end(partition)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        self._partitions.check(partition)
        return self._admin.offsets.offset_at(partition, timestamp)

    def stable_end(self, partition: TopicPartition) -> int:
        """The end for readers of committed records, which may be before `end`."""
        self._partitions.check(partition)
        return self._admin.offsets.stable_end(partition)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        self._partitions.check(partition)
        if not self._admin.offsets.delete_before(partition, offset):
            self._admin.offsets.delete_before(partition, self._admin.offsets.end(partition))

    # -- groups and notes

    def join(
        self, group: str, topics: Iterable[tuple[str, ...]], *, address: str = "", exactly_once: bool = True
    ) -> KafkaMember:
        """The address is part of the client's id: Kafka stores nothing else about its members."""
        member = KafkaMember(
            self._settings,
            self._admin,
            group,
            topics,
            address=address,
            exactly_once=exactly_once,
            left=self._members.discard,
        )
        self._members.add(member)
        return member

    def groups(self) -> Mapping[str, GroupState]:
        return {name: state for name, state in self._admin.groups.all().items() if state.members or state.positions}

    def group(self, name: str) -> GroupState | None:
        state = self._admin.groups.all(only=name).get(name)
        return state if state and (state.members or state.positions) else None

    def progress(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, GroupProgress]:
        for partition in partitions:
            self._partitions.check(partition)
        known = self._admin.groups.offsets(group, partitions)
        known |= self._admin.offsets.starts(set(partitions) - known.keys())
        ends = self._admin.offsets.ends(partitions)
        return {one: GroupProgress(known[one], ends[one]) for one in partitions}

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        state = self._admin.groups.all(only=group).get(group)
        if state is not None:
            check_no_members(group, state.members)
            self._admin.groups.delete(group)
        self._admin.groups.place(group, positions)

    def note(self, name: str) -> str | None:
        if not self._admin.topics.count(_NOTES.topic):
            return None
        found, position, end = None, self._admin.offsets.start(_NOTES), self._admin.offsets.end(_NOTES)
        while position < end:
            batch = self._reader.read(_NOTES, position, 1000)
            position = batch.next_offset
            for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
                found = value if key == name.encode() else found
        return None if found is None else found.decode()

    def write_note(self, name: str, text: str) -> None:
        if self.note(name) != text:
            self._admin.topics.create(Topic(_NOTES.topic, 1, {"cleanup.policy": "compact"}))
            self.append(_NOTES, Columns([name.encode()], [text.encode()], [wall_clock()]))

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """Nothing to do: the brokers clean."""
        return False

    def close(self) -> None:
        """Members that have not left leave now, also those without a reference."""
        for member in list(self._members):
            member.leave()
        self._reader.close()
