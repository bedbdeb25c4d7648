"""From the name of a log to its topics, as Spark reads them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtopo.spark.kafka import KafkaTopics
from streamtopo.spark.topics import EmbeddedTopics, Topics


def topics_of(spark: SparkSession, log: str) -> Topics:
    return KafkaTopics(spark, log) if log.startswith("kafka:") else EmbeddedTopics(spark, log)
