"""Opens the topics of a log for Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import SparkReader, spark_reader
from streamtopo.spark.topics.kafka import KafkaTopics
from streamtopo.spark.topics.topics import EmbeddedTopics, Topics


def topics_of(spark: SparkSession, log: str) -> Topics:
    """Of a session in this process: rollups and queries write their tables here."""
    if ".connect." in type(spark).__module__:
        raise StreamtopoError(
            "rollups do not run on Spark Connect; run streamtopo rollup with --master, or give them a session of this "
            "process. read_topic works there"
        )
    by_connector = spark_reader(log) is SparkReader.KAFKA_CONNECTOR
    return KafkaTopics(spark, log) if by_connector else EmbeddedTopics(spark, log)
