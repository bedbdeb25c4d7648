"""Spark's own connector for Apache Kafka: checks that it is installed, and makes its options."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtopo.errors import LogError
from streamtopo.logs.opening import LogUrl
from streamtopo.spark.java import KAFKA

_LIKE_JAVA = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
"""Settings that have the same names in librdkafka and in Java, for the most part."""


def options_of(log: str) -> dict[str, str]:
    url = LogUrl(log)
    options = {"kafka.bootstrap.servers": url.address.strip("/"), "kafka.isolation.level": "read_committed"}
    return options | {name: value for name, value in url.options.items() if value and name.startswith(_LIKE_JAVA)}


def checked(spark: SparkSession) -> SparkSession:
    """Try to load a topic, which does not reach for a broker; this works through Spark Connect, too."""
    trial = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": "none", "subscribe": "none"})
    try:
        trial.load().schema  # noqa: B018 - Spark Connect asks the server only now
    except AnalysisException as error:
        raise LogError(
            f"this Spark has no connector for Kafka; start it with spark.jars.packages={KAFKA}:{spark.version}"
        ) from error
    return spark
