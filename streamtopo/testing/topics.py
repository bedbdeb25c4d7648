"""What tests write into topics and read from them, encoded as the topology declares it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from streamtopo.dead_letters.letters import dead_letter_topic
from streamtopo.errors import StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, Headers, TopicPartition
from streamtopo.serdes import BYTES, Serde
from streamtopo.topology import Topology
from streamtopo.topology.nodes import SinkNode


class DriverRecord(NamedTuple):
    """A record that a test sends or reads."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    partition: int | None = None
    """None: that of the key, when it is sent. A record that is read has one."""
    headers: Headers = ()


class DriverTopics:
    """The topics of a topology in a log. Each record is read once."""

    def __init__(self, topology: Topology, log: MemoryLog, partitions: int) -> None:
        self._topology = topology
        self._log = log
        self._partitions = partitions
        self._read: dict[TopicPartition, int] = {}
        self._serdes = _serdes(topology)
        for topic in self._serdes:
            if topic not in map(topology.topic_of, topology.repartitions):
                self._create(topic)

    def encode(self, record: DriverRecord) -> tuple[TopicPartition, Columns]:
        """Where it goes, and its bytes."""
        self.check_read(record.topic)
        key, value = self._serdes_of(record.topic)
        key_bytes, value_bytes = key.encode_column([record.key])[0], value.encode_column([record.value])[0]
        return self.place(record._replace(key=key_bytes, value=value_bytes))

    def place(self, record: DriverRecord) -> tuple[TopicPartition, Columns]:
        """The same for a record of bytes."""
        topic, key, value, timestamp, partition, headers = record
        self._create(topic)
        if partition is None or partition < 0:
            (inner,) = self._serdes_of(topic)[0].inner_keys([key])
            partition = partition_of(inner, self._log.topics()[topic].partitions)
        return TopicPartition(topic, partition), Columns([key], [value], [timestamp], [headers] if headers else None)

    def records(self, topic: str) -> list[DriverRecord]:
        """Each record that has not been read yet, partition by partition."""
        if topic not in self._log.topics():
            known = ", ".join(sorted(self._log.topics()))
            raise StreamtopoError(f'nothing writes topic "{topic}"; the topics so far are {known}')
        key, value = self._serdes_of(topic)
        return [
            DriverRecord(topic, key.decode_column([k])[0], value.decode_column([v])[0], time, part.partition, headers)
            for part, columns in self._unread(topic)
            for k, v, time, headers in zip(
                columns.keys,
                columns.values,
                columns.timestamps,
                columns.headers or [()] * len(columns.keys),
                strict=True,
            )
        ]

    def dead_letters(self, topic: str | None) -> list[DriverRecord]:
        """Those that have not been read yet. Without a topic, of the one that they are usually written to."""
        usual = dead_letter_topic(self._topology.application_id)
        there = topic is not None or usual in self._log.topics()  # it is only created if it may be needed
        return self.records(topic or usual) if there else []

    def check_read(self, topic: str) -> None:
        """An error if nothing reads the topic."""
        sources = self._topology.sources
        if topic not in self._serdes and not any(source.matches(topic) for source in sources):
            known = {name for source in sources for name in source.topics} - self._topology.repartitions.keys()
            patterns = {f"all that match {source.pattern.pattern}" for source in sources if source.pattern}
            reads = ", ".join(sorted(known) + sorted(patterns))
            raise StreamtopoError(f'nothing reads topic "{topic}"; this topology reads {reads}')

    def _unread(self, topic: str) -> Iterator[tuple[TopicPartition, Columns]]:
        for partition in range(self._log.topics()[topic].partitions):
            part = TopicPartition(topic, partition)
            batch = self._log.read(part, max(self._read.get(part, 0), self._log.start(part)), 1 << 60)
            self._read[part] = batch.next_offset
            yield part, batch.columns

    def _create(self, topic: str) -> None:
        if topic not in self._log.topics():
            self._log.create(Topic(topic, self._partitions))

    def _serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        if topic not in self._serdes:
            matching = (source for source in self._topology.sources if source.matches(topic))
            self._serdes[topic] = next(((source.key, source.value) for source in matching), (BYTES, BYTES))
        return self._serdes[topic]


def _serdes(topology: Topology) -> dict[str, tuple[Serde, Serde]]:
    """The serdes of each topic that the topology names; those of sources come before those of sinks."""
    sinks = {
        topology.topic_of(sink.topic): (sink.key, sink.value)
        for sink in topology.sinks
        if isinstance(sink, SinkNode) and isinstance(sink.topic, str)
    }
    sources = {
        topology.topic_of(topic): (source.key, source.value) for source in topology.sources for topic in source.topics
    }
    return sinks | sources
