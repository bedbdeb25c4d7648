"""A member of a group on Kafka: one consumer and one producer, used by one thread."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from streamtopo.logs import CommitResult, Outcome, Revoking, ignored
from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.group.consumer import GroupConsumer
from streamtopo.logs.kafka.group.reader import GroupReader
from streamtopo.logs.kafka.group.transactional_id import TransactionalId
from streamtopo.logs.kafka.group.writers import AtLeastOnceWriter, GroupWriter, TransactionalWriter
from streamtopo.logs.kafka.messages import at_end, runs
from streamtopo.logs.kafka.partition_counts import PartitionCounts
from streamtopo.logs.kafka.settings import ClientSettings
from streamtopo.records import Batch, Columns, Position, TopicPartition


class KafkaMember:
    def __init__(
        self,
        settings: ClientSettings,
        admin: Admin,
        group: str,
        topics: Iterable[tuple[str, ...]],
        *,
        address: str,
        exactly_once: bool,
        left: Callable[[KafkaMember], None],
    ) -> None:
        self._has_left = False
        self._left = left
        self._targets = PartitionCounts(admin)
        self._transactional_id = TransactionalId(group) if exactly_once else None
        self._writer: GroupWriter = (
            TransactionalWriter(settings.producer(self._transactional_id.id))
            if self._transactional_id
            else AtLeastOnceWriter(settings)
        )
        self._reader = GroupReader(admin, group)
        self._consumer = GroupConsumer(settings, admin, group, topics, address=address, reader=self._reader)
        self._ownership = self._consumer.ownership

    @property
    def id(self) -> str:
        return str(self._consumer.client.memberid() or "")

    # -- the group

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self._consumer.subscribe(topics)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._ownership.reported()

    @property
    def placed(self) -> bool:
        return self._consumer.placed

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Another member may own them already."""
        self._ownership.release(partitions)

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position] | None:
        return self._consumer.committed(partitions)

    # -- reading

    def poll(
        self,
        limit: int,
        timeout: float,
        paused: Container[TopicPartition] = (),
        revoking: Revoking = ignored,
    ) -> list[Batch]:
        if waiting := self._reader.waiting(limit, paused):
            return waiting
        messages = self._consumer.poll(limit, timeout, revoking)
        batches = [self._batch(source, run, limit, paused) for source, run in runs(messages)]
        return [batch for batch in batches if batch is not None]

    def _batch(
        self, source: TopicPartition, run: list[Any], limit: int, paused: Container[TopicPartition]
    ) -> Batch | None:
        error = run[0].error()
        if error is None:
            return self._reader.batch(source, run, limit, paused)
        if at_end(run[0]):
            return self._reader.gap_at_end(source, run[0].offset())
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._reader.check_offset(source)
        else:
            self._consumer.handle_error(error)
        return None

    def ends(self) -> Mapping[TopicPartition, int]:
        return self._reader.ends()

    def knows_end(self, partition: TopicPartition) -> bool:
        return self._reader.knows_end(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition in self._ownership.partitions:
            self._reader.seek(partition, offset)

    # -- writing

    def send(self, target: TopicPartition, columns: Columns) -> None:
        self._targets.check(target)
        self._writer.send(target, columns)

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        if not self._ownership.refused(positions):
            self._writer.announce(positions, self._consumer.client)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> CommitResult:
        if refused := self._ownership.refused(positions):
            return CommitResult(Outcome.NOT_DONE, reason=f"{refused[0]} belongs to another member now")
        return self._writer.commit(positions, self._consumer.client)

    def abort(self) -> None:
        self._writer.abort()

    def settle(self) -> None:
        self._writer.settle()

    def leave(self) -> None:
        """If the transaction cannot be aborted, the consumer leaves all the same; else it would keep its partitions."""
        if not self._has_left:
            self._has_left = True
            self._left(self)
            try:
                self._writer.close()
            finally:
                if self._transactional_id is not None:
                    self._transactional_id.free()
                self._consumer.close()
