"""The broker shared by all contenders, seen from outside: filling topics, progress of groups, output."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from benchmarks.data import PARTITIONS, Row, by_partition
from benchmarks.peers.workloads import Workload
from benchmarks.processes import until
from streamtopo.broker import Cluster

_END: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Filled = dict[tuple[str, int], int]
"""The number of records in each partition."""


class Output(NamedTuple):
    records: int
    last: dict[bytes, bytes]


class Server:
    def __init__(self, brokers: str) -> None:
        self.brokers = brokers
        self._admin = AdminClient({"bootstrap.servers": brokers, "log_level": 2})
        self._readers: dict[str, Consumer] = {}

    # -- topics

    def make(self, topics: Iterable[str]) -> None:
        for future in self._admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics]).values():
            future.result()

    def empty(self) -> None:
        """Delete all topics and groups: they belong to the previous run."""
        while self._readers:
            self._readers.popitem()[1].close()
        until(self._ungrouped, "the end of the groups", lambda: None)
        topics = self._topics()
        for future in self._admin.delete_topics(topics).values() if topics else ():
            future.result()
        until(lambda: not self._topics(), "the end of the topics", lambda: None)

    def _topics(self) -> list[str]:
        return [name for name in self._admin.list_topics(timeout=10).topics if not name.startswith("__")]

    def _ungrouped(self) -> bool:
        """Delete all groups. A group whose members were killed stays until their sessions end."""
        groups = [group.group_id for group in self._admin.list_consumer_groups().result().valid]
        for future in self._admin.delete_consumer_groups(groups).values() if groups else ():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.NON_EMPTY_GROUP:
                    raise
        return not groups

    # -- records

    def fill(self, topic: str, rows: Iterable[Row]) -> Filled:
        producer = Producer(
            {"bootstrap.servers": self.brokers, "compression.type": "lz4", "linger.ms": 20, "log_level": 2}
            | {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_000_000}
            | {"enable.idempotence": True}  # otherwise a request that is answered late is sent twice
        )
        filled = {}
        for (_, number), (keys, values, times, _) in by_partition(topic, rows):
            for key, value, time in zip(keys, values, times, strict=True):
                producer.produce(topic, value, key, number, timestamp=time)
            filled[topic, number] = len(keys)
        producer.flush()
        return filled

    def output(self, topic: str) -> Output:
        """Return all committed records."""
        consumer = Consumer(
            {"bootstrap.servers": self.brokers, "group.id": "looking", "enable.auto.commit": False}
            | {"enable.partition.eof": True, "fetch.queue.backoff.ms": 2}
        )
        consumer.assign([Place(topic, number, 0) for number in range(PARTITIONS)])
        last: dict[Any, Any] = {}
        count = ended = 0
        while ended < PARTITIONS:
            for message in consumer.consume(10_000, 0.1):
                if (error := message.error()) is None:
                    count += 1
                    last[message.key()] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
                else:
                    raise KafkaException(error)
        consumer.close()
        return Output(count, last)

    # -- a group's progress

    def done(self, workload: Workload, filled: Filled) -> bool:
        """Return whether all input is processed and committed, also in the application's own topics."""
        at = self._committed(workload.application, filled)
        if any(at[partition] < count for partition, count in filled.items()):
            return False
        if not workload.through:
            return True
        known = {topic for topic, _ in filled} | {workload.output}
        ends = self._ends(topic for topic in self._topics() if topic not in known and "changelog" not in topic)
        at = self._committed(workload.application, ends)
        read = {topic for (topic, _), offset in at.items() if offset >= 0}
        # A position may be before the mark that ends a transaction.
        return bool(read) and all(end - max(at[place], 0) <= 1 for place, end in ends.items() if place[0] in read)

    def is_stable(self, group: str) -> bool:
        """Return whether the group has members, and each has its partitions."""
        groups = self._admin.list_consumer_groups().result().valid
        return any(one.group_id == group and one.state is ConsumerGroupState.STABLE for one in groups)

    def written(self, topic: str) -> int:
        return sum(self._ends([topic]).values())

    def _committed(self, group: str, partitions: Collection[tuple[str, int]]) -> Filled:
        """Ask as a member: the admin client's request ends the process when the coordinator moves."""
        if group not in self._readers:
            conf: dict[str, Any] = {"bootstrap.servers": self.brokers, "group.id": group, "enable.auto.commit": False}
            self._readers[group] = Consumer(conf | {"isolation.level": "read_uncommitted", "log_level": 2})
        try:
            places = self._readers[group].committed([Place(*partition) for partition in partitions], 30)
        except KafkaException:  # groups have no coordinator yet
            return dict.fromkeys(partitions, -1)
        return {(place.topic, place.partition): place.offset for place in places}

    def _ends(self, topics: Iterable[str]) -> Filled:
        wanted: dict[Any, Any] = {Place(topic, number): _END for topic in topics for number in range(PARTITIONS)}
        found = self._admin.list_offsets(wanted) if wanted else {}
        return {(place.topic, place.partition): future.result().offset for place, future in found.items()}


@contextmanager
def running() -> Iterator[Server]:
    """Run a separate broker, with the settings of a development cluster."""
    directory = Path(tempfile.mkdtemp(prefix="streamtopo-peers-"))
    cluster = Cluster(directory)
    try:
        cluster.up(port=0, config={"log.retention.ms": "-1"})  # the records have old timestamps
        yield Server(cluster.address)
    finally:
        cluster.down()
        shutil.rmtree(directory, ignore_errors=True)
