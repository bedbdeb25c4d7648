"""Spark's own connector for Apache Kafka: whether it is there, and how it is told where the brokers are."""

from __future__ import annotations

from urllib.parse import parse_qsl

from pyspark.sql import SparkSession

from streamtopo.errors import LogError
from streamtopo.spark.session import KAFKA

_LIKE_JAVA = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
"""Settings that have the same names in librdkafka and in Java, for the most part."""


def options_of(log: str) -> dict[str, str]:
    brokers, _, query = log.removeprefix("kafka:").partition("?")
    options = {"kafka.bootstrap.servers": brokers.strip("/"), "kafka.isolation.level": "read_committed"}
    return options | {name: value for name, value in parse_qsl(query) if name.startswith(_LIKE_JAVA)}


def checked(spark: SparkSession) -> SparkSession:
    loader = spark._jvm.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    if loader.getResource("org/apache/spark/sql/kafka010/KafkaSourceProvider.class") is None:
        raise LogError(
            f"this Spark has no connector for Kafka; start it with spark.jars.packages={KAFKA}:{spark.version}"
        )
    return spark
