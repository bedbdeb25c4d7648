"""Offsets of partitions: their start and end, and the first record of a time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_END, OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from streamtopo.logs.kafka.admin.requests import LAG, ONCE, wait_until
from streamtopo.logs.kafka.admin.topics import TopicAdmin
from streamtopo.logs.kafka.errors import AWAY, MOVING, NO_SUCH, absent, error_of, explained
from streamtopo.records import TopicPartition

_START: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_END: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class OffsetAdmin:
    def __init__(self, client: AdminClient, topics: TopicAdmin) -> None:
        self._client = client
        self._topics = topics

    def start(self, partition: TopicPartition) -> int:
        return self.starts([partition])[partition]

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, _START, IsolationLevel.READ_UNCOMMITTED)

    def end(self, partition: TopicPartition) -> int:
        """The end of all records, also those of open transactions."""
        return self.ends([partition])[partition]

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, _END, IsolationLevel.READ_UNCOMMITTED)

    def stable_end(self, partition: TopicPartition) -> int:
        """The end for readers of committed records."""
        return self._offsets([partition], _END, IsolationLevel.READ_COMMITTED)[partition]

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        """The offset of the first record with this timestamp or a later one; the end if there is none."""
        spec: Any = OffsetSpec.for_timestamp(max(timestamp, 0))
        found = self._offsets([partition], spec, IsolationLevel.READ_UNCOMMITTED)[partition]
        return self.end(partition) if found == OFFSET_END else found

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        wanted = set(partitions)
        deadline = time.monotonic() + LAG

        def asked() -> bool:
            """Whether all are known. Partitions that are moving to another leader are asked for again."""
            client_partitions = {ClientPartition(*partition): spec for partition in wanted - found.keys()}
            futures = self._client.list_offsets(client_partitions, isolation_level=isolation, request_timeout=ONCE)
            for place, future in futures.items():
                partition = TopicPartition(place.topic, place.partition)
                try:
                    offset = future.result().offset
                    if offset != OFFSET_INVALID:  # which means that the broker went away
                        found[partition] = offset
                except KafkaException as error:
                    code = error_of(error).code()
                    known = self._topics.seen(partition.topic) and time.monotonic() < deadline
                    if code in NO_SUCH and not known:
                        raise absent(partition) from error
                    if code not in NO_SUCH | MOVING | AWAY:
                        raise
                    if code in MOVING:
                        self._learn_leaders(partition.topic)
            return len(found) == len(wanted)

        with explained(f"look up the offsets of {', '.join(map(str, sorted(wanted)))}"):
            wait_until(asked)
        return found

    def delete_before(self, partition: TopicPartition, offset: int) -> bool:
        """False if the offset is after the end."""
        place = ClientPartition(*partition, offset)
        with explained(f"delete records of {partition}"):
            try:
                self._client.delete_records([place], request_timeout=ONCE)[place].result()
            except KafkaException as error:
                code = error_of(error).code()
                if code == KafkaError.OFFSET_OUT_OF_RANGE:
                    return False
                if code in MOVING:
                    self._learn_leaders(partition.topic)  # for the next attempt
                raise
        return True

    def _learn_leaders(self, topic: str) -> None:
        """Otherwise the client would use the old leader for another quarter of an hour."""
        with suppress(KafkaException):
            self._client.list_topics(topic, timeout=ONCE)
