"""Apache Kafka as the log, with confluent-kafka: topics, groups and transactions are those of the cluster."""

from __future__ import annotations

from streamtopo.logs.kafka.group.member import KafkaMember
from streamtopo.logs.kafka.log import KafkaLog
from streamtopo.logs.kafka.settings import ClientSettings

__all__ = ["ClientSettings", "KafkaLog", "KafkaMember"]
