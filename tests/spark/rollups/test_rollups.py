"""Rollups: after any number of runs, and kills at any point, the table equals that of one batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo import StreamsBuilder, Timestamp
from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import read_rollup, rollup, view
from streamtopo.spark.declarations import Rollup, resolved
from streamtopo.spark.rollups import incoming, turns
from streamtopo.spark.rollups.rollups import Done, Run
from streamtopo.spark.rollups.tables import Table
from streamtopo.spark.rollups.views import refresh
from tests.logs.records import T0, T1
from tests.spark.rollups.rolling import HOUR, answer, done_by, feed, merged, recomputed


def run(spark: SparkSession, one: Rollup, log: EmbeddedLog, since: int | None = None) -> Done:
    (done,) = Run(spark, one, f"embedded:{log.path}", str(log.path / "out"), since).commits()
    return done


def table(spark: SparkSession, one: Rollup, log: EmbeddedLog, out: Path | None = None) -> Counter[tuple[int, str]]:
    rows = (
        read_rollup(spark, str(out or log.path / "out"), one.name).selectExpr("unix_millis(hour) AS ms", "*").collect()
    )
    found = Counter({(row.ms // HOUR, row.site): row.n for row in rows})
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("one", [merged, recomputed], ids=lambda one: str(one.name))
def test_each_run_reads_new_records_only(spark: SparkSession, log: EmbeddedLog, one: Rollup) -> None:
    feed(log, 0, (1, "a 5"), (1, "b 1"), (2, "a 2"))
    feed(log, 1, (1, "a 9"))
    first = run(spark, one, log)
    assert (first.ranges, first.records, first.buckets, first.rows) == ({T0: (0, 3), T1: (0, 1)}, 4, 2, 3)
    assert table(spark, one, log) == answer(log)
    feed(log, 1, (1, "a 7"), (-3, "late 1"))  # a bucket that exists, and one of 1969
    second = run(spark, one, log)
    assert (second.ranges, second.records, second.buckets) == ({T1: (1, 3)}, 2, 2)
    assert table(spark, one, log) == answer(log)
    assert run(spark, one, log).ranges == {}
    if one is merged:
        highest = {
            row.most for row in read_rollup(spark, str(log.path / "out"), "merged").where("site = 'a'").collect()
        }
        assert highest == {9, 2}


@pytest.mark.parametrize(
    ("column", "how", "message"),
    [
        ("count(distinct value)", "sum", r"makes n=2 for hour=1970-01-01 01:00:00, and the function makes 1 of all"),
        ("avg(timestamp)", "max", "and the function makes"),
        ("sum(if(value = 'a', null, 1))", "sum", None),
        ("sum(0.1)", "sum", None),
        ("min(value)", "min", None),
    ],
)
def test_functions_that_cannot_be_merged_are_refused(
    spark: SparkSession, log: EmbeddedLog, column: str, how: str, message: str | None
) -> None:
    @rollup("merging", every="1 hour", topic="t", value=str, merge={"n": how})
    def merging(readings: DataFrame) -> DataFrame:
        return readings.selectExpr("hour", "value", "unix_millis(timestamp) AS timestamp").groupBy("hour").agg(
            F.expr(column).alias("n"))  # fmt: skip

    feed(log, 0, *[(1, "a")] * 40)
    if message is None:
        assert run(spark, merging, log).rows == 1
        return
    for _ in range(2):
        with pytest.raises(StreamtopoError, match=message):
            run(spark, merging, log)


def test_triggers_run_once_or_repeatedly(
    spark: SparkSession, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "COMMIT_BYTES", 1)
    monkeypatch.setattr(turns, "PAUSE", 0)
    feed(log, 0, (1, "a 5"))
    feed(log, 0, (1, "a 5"), (2, "a 5"))
    one = Run(spark, merged, f"embedded:{log.path}", str(log.path / "out"))
    assert [done.ranges for done in done_by(turns.commits([one], "available-now"))] == [{T0: (0, 1)}, {T0: (1, 3)}]
    endless = done_by(turns.commits([one], "continuous"))
    for _ in range(2):
        feed(log, 1, (1, "b 5"))
        assert next(endless).records == 1
    assert table(spark, merged, log) == answer(log)


def test_corrupt_records_are_counted_and_left_out(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"))
    log.append(T0, Columns([None] * 2, [b"\xff", b"a 1"], [HOUR, (1 << 63) - 1]))
    done = run(spark, merged, log)
    assert (done.records, done.rows, done.corrupt) == (3, 1, 2)
    assert table(spark, merged, log) == {(1, "a"): 1}
    log.append(T0, Columns([None], [b"\xff"], [9 * HOUR]))
    done = run(spark, merged, log)
    assert (done.records, done.rows, done.corrupt) == (1, 0, 1)


def test_a_function_may_drop_all_records(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"))
    nothing = rollup("nothing", every="1 hour", topic="t")(lambda t: t.where("1 = 0").groupBy("hour").count())
    assert (run(spark, nothing, log).rows, run(spark, nothing, log).ranges) == (0, {})
    assert read_rollup(spark, str(log.path / "out"), "nothing").collect() == []


def test_since_leaves_older_spans_out(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"), (2, "a 5"), (3, "a 5"))
    run(spark, merged, log, since=2 * HOUR + 5)
    assert table(spark, merged, log) == {(2, "a"): 1, (3, "a"): 1}
    feed(log, 0, (1, "a 5"), (2, "a 5"))
    run(spark, merged, log)  # the start is remembered
    assert table(spark, merged, log) == {(2, "a"): 2, (3, "a"): 1}
    with pytest.raises(StreamtopoError, match="was computed with since"):
        run(spark, merged, log, since=0)


def test_two_runs_at_once_and_other_topics_are_refused(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"))
    with (
        Table(log.path / "out" / "merged").locked(),
        pytest.raises(StreamtopoError, match="another process is writing"),
    ):
        run(spark, merged, log)
    run(spark, merged, log)
    daily = rollup("merged", every="1 day", topic="t", value=str)(merged.function)
    with pytest.raises(StreamtopoError, match="was computed with every = '1 hour', and now it is '1 day'"):
        run(spark, daily, log)
    log.delete("t")
    log.create(Topic("t", 2))
    with pytest.raises(StreamtopoError, match="was computed from another topic"):
        run(spark, merged, log)


def test_the_columns_a_function_must_return(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 1, (1, "a 5"))
    lacking = rollup("x", every="1 day", keys=["site"])(lambda t: t.groupBy("day").count())
    with pytest.raises(StreamtopoError, match='"x" returns the columns day, count; it needs day, site'):
        run(spark, lacking, log)
    moved = rollup("y", every="1 day")(
        lambda t: t.groupBy(t.day.cast("date").alias("d")).count().selectExpr("d + 1 AS day")
    )
    with pytest.raises(StreamtopoError, match="returns rows for another day than its records have"):
        run(spark, moved, log)
    with pytest.raises(StreamtopoError, match='there is no rollup "y"'):
        read_rollup(spark, str(log.path / "out"), "y")


def test_a_column_may_be_named_bucket(spark: SparkSession, log: EmbeddedLog) -> None:
    sized = rollup("sizes", every="1 hour", keys=["bucket"], topic="t", value=str, merge={"n": "sum"})(
        lambda t: t.selectExpr("hour", "cast(value AS int) div 10 AS bucket").groupBy("hour", "bucket").agg(
            {"*": "count"}).withColumnRenamed("count(1)", "n")
    )  # fmt: skip
    for _ in range(2):
        feed(log, 0, (1, "5"), (1, "17"), (1, "18"))
        run(spark, sized, log)
    rows = read_rollup(spark, str(log.path / "out"), "sizes").select("bucket", "n").collect()
    assert sorted(map(tuple, rows)) == [(0, 2), (1, 4)]


@dataclass
class Dated:
    at: float


def test_a_time_that_is_not_a_whole_number_of_milliseconds_is_set_aside(spark: SparkSession, log: EmbeddedLog) -> None:
    declared = rollup("dated", every="1 hour", topic="t", value=Dated)(lambda t: t.groupBy("hour").count())
    one = replace(declared, inputs=(replace(declared.inputs[0], timestamp="at"),))
    log.append(T0, Columns([None] * 2, [b'{"at":5}', b'{"at":1e300}'], [0, 0]))
    done = run(spark, one, log)
    assert (done.records, done.rows, done.corrupt) == (2, 1, 1)


def test_a_view_of_a_table_that_has_no_rows_yet(spark: SparkSession, log: EmbeddedLog) -> None:
    log.append(T0, Columns([None], [b"a 5"], [(1 << 63) - 1]))
    assert run(spark, merged, log).corrupt == 1
    sites = view("sites", of=["merged"])(lambda rows: rows.groupBy("site").count())
    out = str(log.path / "out")
    for rows in ([], ["a"]):
        assert refresh(spark, sites, out)
        assert not refresh(spark, sites, out)
        assert [row.site for row in read_rollup(spark, out, "sites").collect()] == rows
        feed(log, 0, (1, "a 5"))
        run(spark, merged, log)


def test_a_log_restored_from_an_older_copy_is_refused(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"), (1, "a 5"))
    run(spark, merged, log)
    with log._database.connection() as database:  # as it was before the second record
        database.execute("UPDATE partitions SET next_offset = 1")
    with pytest.raises(
        StreamtopoError, match="has read t/0 up to offset 2, and it ends at 1: the log is an older copy"
    ):
        run(spark, merged, log)


def test_a_table_has_one_value_for_a_key_in_two_partitions(spark: SparkSession, log: EmbeddedLog) -> None:
    """As after a partition was added: the key is in the new one then, and its older records are still in the first."""
    log.create(Topic("names", 2))
    for number, (name, at) in enumerate(((b"old", 1), (b"new", 2))):
        log.append(TopicPartition("names", number), Columns([b"a"], [name], [at]))
    feed(log, 0, (1, "a"))
    named = rollup("named", every="1 hour", keys=["name"], topic="t", value=str, tables=["names"])(
        lambda t, names: t.join(
            names.selectExpr("CAST(key AS STRING) AS value", "CAST(value AS STRING) AS name"), "value"
        ).groupBy("hour", "name").count()
    )  # fmt: skip
    run(spark, named, log)
    assert [row.name for row in read_rollup(spark, str(log.path / "out"), "named").collect()] == ["new"]


def test_times_outside_sparks_range_are_refused() -> None:
    for timestamp, message in (
        (lambda key, value: 5, "come from a function"),
        (Timestamp("at", "partition_time"), "negative times"),
    ):
        builder = StreamsBuilder("timed")
        builder.stream("t", value=dict, timestamp=timestamp).to("out")
        with pytest.raises(TopologyError, match=message):
            resolved(merged, builder.build())
