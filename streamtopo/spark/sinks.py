"""Where the rows of a rollup go besides its table: into a topic, or into a SQL database."""

from __future__ import annotations

from contextlib import closing

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import ConfigError
from streamtopo.logs.embedded.bulk import Bulk
from streamtopo.spark.declaring import Rollup
from streamtopo.spark.delivery import Delivery, Sink
from streamtopo.spark.sql import SCHEMES, SqlSink
from streamtopo.spark.typed import latest, path_of, typed

_JSON = {"ignoreNullFields": "false"}


def sink_for(spark: SparkSession, rollup: Rollup, log: str, into: str) -> Sink:
    scheme, _, rest = into.partition(":")
    if scheme == "topic" and rest:
        return TopicSink(spark, rollup, log, rest)
    if scheme in SCHEMES and rest:
        return SqlSink(rollup.name, rollup.bucket, into)
    raise ConfigError(f'"{into}" is no place for rows; give topic:NAME, sqlite:FILE or postgresql://USER@HOST/DATABASE')


class TopicSink:
    """JSON: the key is the span and the keys, the value the whole row; null for a row that is gone."""

    def __init__(self, spark: SparkSession, rollup: Rollup, log: str, topic: str) -> None:
        self._spark = spark
        self._keys = (rollup.bucket, *rollup.keys)
        self._path = path_of(log)
        self._topic = topic
        if topic in {one.topic for one in (*rollup.inputs, *rollup.tables)}:
            raise ConfigError(f'rollup "{rollup.name}" reads "{topic}", and cannot write into it too')
        with closing(Bulk(self._path)) as bulk:
            bulk.extents(topic)  # it must be there

    def delivered(self, table: str) -> int:
        with closing(Bulk(self._path)) as bulk:
            return bulk.appended(_name(table)) or 0

    def deliver(self, delivery: Delivery) -> None:
        rows = delivery.rows.select(_key(delivery.rows, self._keys), F.to_json(F.struct("*"), _JSON).alias("value"))
        replaced = delivery.replaced
        before = self._there() if replaced is None else replaced.select(_key(replaced, self._keys))
        gone = before.join(rows, "key", "left_anti").select("key", F.lit(None).cast("string").alias("value"))
        options = {"path": self._path, "topic": self._topic, "commitId": _name(delivery.table)}
        write = rows.unionByName(gone).write.format("streamtopo").mode("append")
        write.options(**options, commitNumber=str(delivery.commit)).save()

    def _there(self) -> DataFrame:
        """The keys that the topic has rows for."""
        records = self._spark.read.format("streamtopo").options(path=self._path, topic=self._topic).load()
        return latest(typed(records, str, bytes)).select("key")


def _key(rows: DataFrame, keys: tuple[str, ...]) -> Column:
    return F.to_json(F.struct(*keys), _JSON).alias("key")


def _name(table: str) -> str:
    return f"rollup:{table}"
