"""Apache Kafka as the log, by confluent-kafka: topics, groups and transactions are the cluster's own."""

from __future__ import annotations

from streamtopo.logs.kafka.log import KafkaLog
from streamtopo.logs.kafka.member import KafkaMember
from streamtopo.logs.kafka.settings import Settings

__all__ = ["KafkaLog", "KafkaMember", "Settings"]
