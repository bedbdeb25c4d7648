"""The partition counts of topics, remembered, so that no client waits for a partition that does not exist."""

from __future__ import annotations

from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.errors import absent
from streamtopo.records import TopicPartition


class PartitionCounts:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._counts: dict[str, int] = {}

    def check(self, partition: TopicPartition) -> None:
        """Raises an error if the partition does not exist."""
        if partition.partition >= self._counts.get(partition.topic, 0):
            self._counts[partition.topic] = self._admin.topics.count(partition.topic)
            if partition.partition >= self._counts[partition.topic]:
                raise absent(partition)

    def forget(self, topic: str) -> None:
        self._counts.pop(topic, None)
