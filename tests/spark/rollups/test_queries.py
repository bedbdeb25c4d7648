"""Rollups as queries of Structured Streaming, in the three output modes."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from apps import sensors, wordcount
from apps.wordcount.rollups import top_words, words_by_day
from streamtopo.errors import StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import read_rollup, rollup
from streamtopo.spark.declarations import Rollup, resolved
from streamtopo.spark.rollups.queries import Query
from streamtopo.spark.rollups.rollups import Done, Run
from streamtopo.spark.rollups.turns import Failed, queried
from tests.logs.records import T0
from tests.long import long
from tests.spark.rollups.rolling import HOUR, answer, done_by, feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@rollup("sites", every="1 hour", keys=["site"], topic="t", value=str)
def sites(records: DataFrame) -> DataFrame:
    split = records.selectExpr("hour", "split(value, ' ')[0] AS site")
    return split.groupBy("hour", "site").count()


def run(spark: SparkSession, log: EmbeddedLog, mode: str, one: Rollup = sites) -> list[Done]:
    query = Query(spark, one, f"embedded:{log.path}", str(log.path / mode), mode)
    return list(done_by(queried([query], "available-now")))


def table(spark: SparkSession, log: EmbeddedLog, mode: str) -> Counter[tuple[int, str]]:
    rows = (
        read_rollup(spark, str(log.path / mode), "sites").selectExpr("unix_millis(hour) ms", "site", "count").collect()
    )
    assert len({(row.ms, row.site) for row in rows}) == len(rows)
    return Counter({(row.ms // HOUR, row.site): row[2] for row in rows})


@pytest.mark.parametrize("mode", ["update", pytest.param("complete", marks=long)])
def test_the_table_equals_that_of_a_batch(spark: SparkSession, log: EmbeddedLog, mode: str) -> None:
    feed(log, 0, (1, "a"), (1, "b"), (2, "a"))
    log.append(T0, Columns([None], [b"\xff"], [HOUR]))
    (first,) = run(spark, log, mode)
    assert (first.ranges, first.records, first.corrupt, first.rows) == ({T0: (0, 4)}, 4, 1, 3)
    feed(log, 1, (2, "a"), (3, "c"))
    run(spark, log, mode)
    wanted = answer(log, skip=b"\xff")
    assert table(spark, log, mode) == wanted == {(1, "a"): 1, (1, "b"): 1, (2, "a"): 2, (3, "c"): 1}
    assert run(spark, log, mode) == []


@long
def test_append_writes_a_span_once_when_it_is_over(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a"), (2, "a"), (2, "b"), (5, "a"))
    run(spark, log, "append")
    assert table(spark, log, "append") == {(1, "a"): 1, (2, "a"): 1, (2, "b"): 1}
    feed(log, 0, (1, "a"), (5, "a"), (9, "a"))  # the first record is too late
    run(spark, log, "append")
    assert table(spark, log, "append") == {(1, "a"): 1, (2, "a"): 1, (2, "b"): 1, (5, "a"): 2}


def test_the_watermark_waits_for_the_grace_of_the_topology(spark: SparkSession, log: EmbeddedLog) -> None:
    assert resolved(sites, sensors.topology).grace == 10_000
    waiting = Rollup(**{name: getattr(sites, name) for name in sites.__dataclass_fields__} | {"grace": 3 * HOUR})
    feed(log, 0, (1, "a"), (2, "a"), (5, "a"))
    run(spark, log, "append", waiting)
    assert table(spark, log, "append") == {(1, "a"): 1}


@long
def test_daily_spans_and_a_continuous_query(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create(Topic("sentences", 1))
    target = TopicPartition("sentences", 0)
    one = Query(
        spark, resolved(words_by_day, wordcount.topology), f"embedded:{log.path}", str(log.path / "o"), "update"
    )
    log.append(target, Columns([None], [b"a b a"], [24 * HOUR]))
    endless = done_by(queried([one], "continuous"))
    assert next(endless).rows == 2
    log.append(target, Columns([None], [b"a"], [48 * HOUR]))
    assert next(endless).rows == 1
    endless.close()
    rows = read_rollup(spark, str(log.path / "o"), "words-by-day").selectExpr("unix_date(day)", "word", "count")
    assert {tuple(row) for row in rows.collect()} == {(1, "a", 2), (1, "b", 1), (2, "a", 1)}


def test_unsuitable_rollups_are_refused_as_queries(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create(Topic("sentences", 1))
    with pytest.raises(StreamtopoError, match=r"rollup \"top-words\": .*NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING"):
        run(spark, log, "update", resolved(top_words, wordcount.topology))
    feed(log, 0, (1, "a"))
    run(spark, log, "update")
    with pytest.raises(StreamtopoError, match="was computed with mode = 'update', and now it is None"):
        list(Run(spark, sites, f"embedded:{log.path}", str(log.path / "update")).commits())
    shutil.rmtree(log.path / "update" / "sites" / "_checkpoint")
    with pytest.raises(StreamtopoError, match='_checkpoint" is gone, and with it what the query has read'):
        run(spark, log, "update")
    (log.path / "update").rename(log.path / "append")
    with pytest.raises(StreamtopoError, match="was computed with mode = 'update', and now it is 'append'"):
        run(spark, log, "append")


def test_a_batch_repeated_by_spark_counts_once(spark: SparkSession, log: EmbeddedLog) -> None:
    """As after a kill between the commit and Spark's own note that the batch is done."""
    feed(log, 0, (1, "a"), (1, "b"))
    run(spark, log, "update")
    for note in list((log.path / "update" / "sites" / "_checkpoint" / "commits").iterdir()):
        note.unlink()
    feed(log, 0, (1, "a"))
    run(spark, log, "update")
    assert table(spark, log, "update") == {(1, "a"): 2, (1, "b"): 1}


def test_a_query_that_cannot_be_started_stops_the_others(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create(Topic("sentences", 1))
    both = [sites, resolved(top_words, wordcount.topology)]
    queries = [Query(spark, one, f"embedded:{log.path}", str(log.path / "o"), "update") for one in both]
    (failed,) = queried(queries, "continuous")
    assert isinstance(failed, Failed)
    assert "NON_TIME_WINDOW" in str(failed.error)
    assert spark.streams.active == []
