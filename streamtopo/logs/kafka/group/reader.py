"""What a member reads: its offset in each partition, and messages that wait while their partition is paused."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from streamtopo.errors import LogError
from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.errors import error_of, outside, reason_of
from streamtopo.logs.kafka.messages import batch_of
from streamtopo.records import Batch, Columns, TopicPartition

_SOON = 10.0
"""Seconds to wait until a newly assigned partition can be read."""


class GroupReader:
    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._group = group
        self._next: dict[TopicPartition, int] = {}
        """The next offset of each partition that has had a seek."""
        self._at_end: set[TopicPartition] = set()
        self._backlog: dict[TopicPartition, list[Any]] = {}
        """Messages that arrived while their partition was paused."""
        self._held: set[TopicPartition] = set()
        """Partitions that the client has paused, as their backlog is long."""

    def use(self, consumer: Any) -> None:
        """Read with this client, which has joined the group."""
        self._consumer = consumer

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._held.discard(partition)
            self._at_end.discard(partition)
            self._next.pop(partition, None)
            self._backlog.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._next[partition] = offset
        self._backlog.pop(partition, None)
        self._held.discard(partition)
        self._at_end.discard(partition)
        deadline = time.monotonic() + _SOON
        while True:
            try:
                self._consumer.seek(ClientPartition(*partition, offset))
                self._consumer.resume([ClientPartition(*partition)])
                return
            except KafkaException as error:
                # A newly assigned partition takes a moment to be ready.
                if error_of(error).code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise LogError(
                        f"cannot read from offset {offset} of {partition}: {reason_of(error_of(error))}"
                    ) from error
                time.sleep(0.002)

    def check_offset(self, source: TopicPartition) -> None:
        """The brokers say that they do not have the next offset; they also do so before the first seek."""
        if source not in self._next:
            return
        offset = self._next[source]
        start, end = self._admin.offsets.start(source), self._admin.offsets.end(source)
        if start <= offset <= end:
            self.seek(source, offset)
        elif self._admin.groups.offsets(self._group, [source]).get(source, offset) <= offset:
            raise outside(source, offset, start, end)
        # Else another member has got further, and deleted that: the group will say soon that it took this away.

    # -- messages

    def waiting(self, limit: int, paused: Container[TopicPartition]) -> list[Batch]:
        """Messages that arrived while their partition was paused, of partitions that are not paused any more."""
        resumed = [part for part in self._backlog if part not in paused and part in self._next]
        return [self._take_backlog(part, limit) for part in resumed]

    def _take_backlog(self, source: TopicPartition, limit: int) -> Batch:
        kept = self._backlog.pop(source)
        if len(kept) > limit:
            self._backlog[source] = kept[limit:]
        elif source in self._held:
            self._held.discard(source)
            self._consumer.resume([ClientPartition(*source)])
        batch = batch_of(source, kept[:limit])
        self._next[source] = batch.next_offset
        return batch

    def batch(
        self, source: TopicPartition, messages: list[Any], limit: int, paused: Container[TopicPartition]
    ) -> Batch | None:
        """These messages; None if the partition is paused, or is not read."""
        if source not in self._next:
            return None
        self._at_end.discard(source)
        if source in paused:
            self._keep(source, messages, limit)
            return None
        batch = batch_of(source, messages)
        self._next[source] = batch.next_offset
        return batch

    def _keep(self, source: TopicPartition, messages: list[Any], limit: int) -> None:
        kept = self._backlog.setdefault(source, [])
        kept.extend(messages)
        if len(kept) > limit and source not in self._held:
            self._consumer.pause([ClientPartition(*source)])
            self._held.add(source)

    def gap_at_end(self, source: TopicPartition, end: int) -> Batch | None:
        """The partition ends here. A batch without records if there is a gap before the end, else None."""
        if source not in self._next:
            return None
        self._at_end.add(source)
        if source in self._backlog or end <= self._next[source]:
            return None
        self._next[source] = end
        return Batch(source, Columns([], [], []), [], end)

    # -- ends

    def ends(self) -> Mapping[TopicPartition, int]:
        return {partition: self._end(partition) for partition in self._next}

    def knows_end(self, partition: TopicPartition) -> bool:
        return partition in self._at_end or self._high_watermark(partition) is not None

    def _end(self, partition: TopicPartition) -> int:
        if partition in self._at_end and partition not in self._backlog:
            return self._next[partition]
        known = self._high_watermark(partition)
        if known is None:  # there may be more records; the client will know soon
            return self._next[partition] + 1
        return max(self._next[partition], known)

    def _high_watermark(self, partition: TopicPartition) -> int | None:
        """As last reported by the brokers; None before the first report since the partition was assigned."""
        known = self._consumer.get_watermark_offsets(ClientPartition(*partition), cached=True)
        return None if known is None or known[1] < 0 else known[1]
