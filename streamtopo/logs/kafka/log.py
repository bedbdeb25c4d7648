"""The cluster as a log: what is not the work of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from threading import Lock
from time import time_ns
from weakref import WeakSet

from streamtopo.logs import CLEANING_MEMORY, GroupState, Topic
from streamtopo.logs.groups import check_no_members
from streamtopo.logs.kafka.admin import Admin
from streamtopo.logs.kafka.appending import Appender
from streamtopo.logs.kafka.failing import absent
from streamtopo.logs.kafka.member import KafkaMember
from streamtopo.logs.kafka.reader import Reader
from streamtopo.logs.kafka.settings import Settings
from streamtopo.logs.kafka.writer import Writer
from streamtopo.logs.topics import check_equal
from streamtopo.records import Batch, Columns, Position, TopicPartition

_NOTES = TopicPartition("__streamtopo-notes", 0)
"""Small texts, the last of each name; its two underscores keep it out of listings."""


class KafkaLog:
    one_machine = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin = Admin(settings)
        self.id = self._admin.id
        self._reader = Reader(settings, self._admin)
        self._writer: Writer | None = None
        self._one_writer = Lock()
        self._counts: dict[str, int] = {}
        self._members: WeakSet[KafkaMember] = WeakSet()

    keeps_deletions = 0

    def cleaned(self, partition: TopicPartition) -> None:
        """Brokers do not say."""

    # -- topics

    def topics(self) -> Mapping[str, Topic]:
        return self._admin.topics()

    def create(self, topic: Topic) -> None:
        if self._admin.create(topic):
            return
        check_equal(self._admin.existing(topic.name), topic)

    def delete(self, topic: str) -> None:
        self._admin.delete(topic)
        self._counts.pop(topic, None)

    # -- records

    def append(self, target: TopicPartition, columns: Columns) -> int:
        self._check(target)
        if not columns.keys:
            return self.end(target)
        with self._one_writer:
            self._writer = self._writer or Writer(self._settings)
            return self._writer.append(target, columns)

    def appender(self, name: str) -> Appender:
        """For what is appended once, by one at a time of this name: others of it write nothing more."""
        return Appender(self._settings, self._admin, self._reader, name)

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        self._check(source)
        return self._reader.read(source, offset, limit, most_bytes)

    def start(self, partition: TopicPartition) -> int:
        self._check(partition)
        return self._admin.start(partition)

    def end(self, partition: TopicPartition) -> int:
        self._check(partition)
        return self._admin.end(partition)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        self._check(partition)
        return self._admin.offset_at(partition, timestamp)

    def stable_end(self, partition: TopicPartition) -> int:
        """Where a reader of committed records must stop for now."""
        self._check(partition)
        return self._admin.stable_end(partition)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        self._check(partition)
        if not self._admin.delete_before(partition, offset):
            self._admin.delete_before(partition, self._admin.end(partition))

    def _check(self, partition: TopicPartition) -> None:
        """Before a client waits for a partition that may never come."""
        if partition.partition >= self._counts.get(partition.topic, 0):
            self._counts[partition.topic] = self._admin.count(partition.topic)
        if partition.partition >= self._counts[partition.topic]:
            raise absent(partition)

    # -- groups and notes

    def join(
        self, group: str, topics: Iterable[tuple[str, ...]], *, address: str = "", exactly_once: bool = True
    ) -> KafkaMember:
        """The address is part of the client's id: Kafka keeps nothing else that members say of themselves."""
        member = KafkaMember(self._settings, self._admin, group, topics, address=address, exactly_once=exactly_once)
        self._members.add(member)
        return member

    def groups(self) -> Mapping[str, GroupState]:
        return {name: state for name, state in self._admin.groups().items() if state.members or state.positions}

    def group(self, name: str) -> GroupState | None:
        state = self._admin.groups(only=name).get(name)
        return state if state and (state.members or state.positions) else None

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        state = self._admin.groups(only=group).get(group)
        if state is not None:
            check_no_members(group, state.members)
            self._admin.delete_group(group)
        self._admin.place_group(group, positions)

    def note(self, name: str) -> str | None:
        if not self._admin.count(_NOTES.topic):
            return None
        found, position, end = None, self._admin.start(_NOTES), self._admin.end(_NOTES)
        while position < end:
            batch = self._reader.read(_NOTES, position, 1000)
            position = batch.next_offset
            for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
                found = value if key == name.encode() else found
        return None if found is None else found.decode()

    def write_note(self, name: str, text: str) -> None:
        if self.note(name) != text:
            self._admin.create(Topic(_NOTES.topic, 1, {"cleanup.policy": "compact"}))
            self.append(_NOTES, Columns([name.encode()], [text.encode()], [time_ns() // 1_000_000]))

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """The brokers do."""
        return False

    def close(self) -> None:
        """Members that are still there leave."""
        for member in list(self._members):
            member.leave()
        self._reader.close()
