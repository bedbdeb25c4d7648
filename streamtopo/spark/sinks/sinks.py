"""Where the rows of a rollup go besides its table: into a topic, or into a SQL database."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import ConfigError
from streamtopo.serdes import STR
from streamtopo.settings.redaction import shown_url
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.sinks.delivery import Delivery, Sink
from streamtopo.spark.sinks.sql import SCHEMES, SqlSink
from streamtopo.spark.topics.opening import topics_of
from streamtopo.spark.topics.topics import Extent, Topics
from streamtopo.spark.topics.typed import Types, latest

_JSON = {"ignoreNullFields": "false", "timeZone": "UTC"}


def sink_for(spark: SparkSession, rollup: Rollup, log: str, into: str) -> Sink:
    scheme, _, rest = into.partition(":")
    if scheme == "topic" and rest:
        return TopicSink(topics_of(spark, log), rollup, rest)
    if scheme in SCHEMES and rest:
        return SqlSink(rollup.name, rollup.bucket, into)
    raise ConfigError(
        f'"{shown_url(into)}" is not a place for rows; give topic:NAME, sqlite:FILE or postgresql://USER@HOST/DATABASE'
    )


class TopicSink:
    """Records in JSON: the key has the span and the keys, the value the whole row, or null for a deleted row."""

    def __init__(self, topics: Topics, rollup: Rollup, topic: str) -> None:
        self._topics = topics
        self._keys = (rollup.bucket, *rollup.keys)
        self._topic = topic
        if topic in {one.topic for one in (*rollup.inputs, *rollup.tables)}:
            raise ConfigError(f'rollup "{rollup.name}" reads "{topic}", and cannot write into it too')
        self._extents()  # it must exist

    def delivered(self, table: str) -> int:
        return self._topics.appended(self._name(table))

    def deliver(self, delivery: Delivery) -> None:
        rows = delivery.rows.select(_key(delivery.rows, self._keys), F.to_json(F.struct("*"), _JSON).alias("value"))
        replaced = delivery.replaced
        before = self._there() if replaced is None else replaced.select(_key(replaced, self._keys))
        gone = before.join(rows, "key", "left_anti").select("key", F.lit(None).cast("string").alias("value"))
        self._topics.append(self._topic, rows.unionByName(gone), self._name(delivery.table), delivery.commit)

    def _there(self) -> DataFrame:
        """The keys that the topic has rows for."""
        spans = {number: (extent.start, extent.end) for number, extent in self._extents().items()}
        return latest(self._topics.read(self._topic, spans, types=Types(key=STR))).select("key")

    def _name(self, table: str) -> str:
        """The id of this topic: a new topic with the same name has no rows of the table yet."""
        return f"rollup:{table}:{self._extents()[0].topic}"

    def _extents(self) -> Mapping[int, Extent]:
        return self._topics.extents([self._topic])[self._topic]


def _key(rows: DataFrame, keys: tuple[str, ...]) -> Column:
    return F.to_json(F.struct(*keys), _JSON).alias("key")
