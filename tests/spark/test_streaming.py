"""Topics as streams, and streams into topics: each record once, also when a query is killed and restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.logs.records import T0, T1, numbered, values


def stream(spark: SparkSession, log: EmbeddedLog, **options: str) -> DataFrame:
    source = spark.readStream.format("streamtopo").option("path", str(log.path)).option("topic", "t")
    return source.options(**options).load()


def run(frame: DataFrame, log: EmbeddedLog, checkpoint: Path) -> None:
    """Copy all records into the topic "copy"."""
    log.create(Topic("copy", 1))
    writer = frame.select("key", "value", "timestamp").writeStream.format("streamtopo")
    writer = writer.option("path", str(log.path)).option("topic", "copy").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def copied(log: EmbeddedLog) -> list[bytes | None]:
    return values(log, TopicPartition("copy", 0))


def test_a_stream_continues_where_it_stopped(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.append(T0, numbered(3))
    run(stream(spark, log), log, tmp_path / "checkpoint")
    assert copied(log) == [b"0", b"1", b"2"]
    log.append(T1, Columns([b"k"], [b"new"], [12345]))
    run(stream(spark, log), log, tmp_path / "checkpoint")
    found = log.read(TopicPartition("copy", 0), 3, 10).columns
    assert (found.keys, found.values, found.timestamps) == ([b"k"], [b"new"], [12345])
    assert list((log.path / "staging").iterdir()) == []


def test_a_repeated_batch_writes_nothing(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    """Spark repeats a batch that it did not record, although we committed it. Other queries have their own batch 0."""
    log.append(T0, numbered(3))
    run(stream(spark, log), log, tmp_path / "checkpoint")
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    run(stream(spark, log), log, tmp_path / "checkpoint")
    assert copied(log) == [b"0", b"1", b"2"]
    run(stream(spark, log), log, tmp_path / "other")
    assert copied(log) == [b"0", b"1", b"2"] * 2
    log.delete("t")
    log.create(Topic("t", 2))
    with pytest.raises(StreamingQueryException, match="was deleted and created again"):
        run(stream(spark, log), log, tmp_path / "checkpoint")


def save(frame: DataFrame, log: EmbeddedLog, **options: Any) -> None:
    frame.write.format("streamtopo").mode("append").options(path=str(log.path), topic="t", **options).save()


def test_a_table_becomes_records(spark: SparkSession, log: EmbeddedLog) -> None:
    frame = spark.range(2000).select(
        F.col("id").cast("string").alias("key"),
        F.when(F.col("id") != 7, F.to_json(F.struct("id"))).alias("value"),
        F.timestamp_millis(F.col("id") - 1000).alias("timestamp"),
        F.array(F.struct(F.lit("h").alias("key"), F.lit("x").cast("binary").alias("value"))).alias("headers"),
    )
    save(frame, log)
    assert list((log.path / "staging").iterdir()) == []
    batches = [log.read(part, 0, 5000) for part in (T0, T1)]
    rows = [row for batch in batches for row in zip(*batch.columns, strict=True)]  # type: ignore[arg-type]
    expected = [(b"%d" % n, None if n == 7 else b'{"id":%d}' % n, n - 1000, (("h", b"x"),)) for n in range(2000)]
    assert sorted(rows, key=lambda row: row[2]) == expected
    assert {partition_of(key, 2) for key in batches[1].columns.keys} == {1}


def test_a_named_save_happens_once(spark: SparkSession, log: EmbeddedLog) -> None:
    frame = spark.createDataFrame([("a", "k1", 1), ("b", "k1", None)], "value string, key string, partition int")
    assert partition_of(b"k1", 2) == 1
    for _ in range(2):
        save(frame, log, commitId="monday")
    save(frame, log, commitId="tuesday")
    assert values(log, T1) == [b"a", b"b", b"a", b"b"]
    assert values(log, T0) == []


def test_a_save_writes_everything_or_nothing(spark: SparkSession, log: EmbeddedLog) -> None:
    failing = spark.range(1000, numPartitions=2).selectExpr("IF(id = 999, raise_error('no'), 'x') AS value")
    with pytest.raises(Exception, match="no"):
        save(failing, log)
    wrong = spark.sql("SELECT 'a' AS value, 0 AS partition UNION ALL SELECT 'b', 9")
    with pytest.raises(Exception, match="partition t/9 does not exist"):
        save(wrong, log)
    assert values(log, T0) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 AS value", "column value int cannot be written to a topic"),
        ("SELECT 'a' AS key", 'a column "value" is needed'),
    ],
)
def test_unsuitable_frames_are_refused(spark: SparkSession, log: EmbeddedLog, query: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        save(spark.sql(query), log)
    with pytest.raises(Exception, match="is written to its end"):
        spark.sql("SELECT 'a' AS value").write.format("streamtopo").mode("overwrite").options(
            path=str(log.path), topic="t"
        ).save()
