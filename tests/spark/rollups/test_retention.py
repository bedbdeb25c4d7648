"""Records that retention deletes: a rollup goes on, keeps late records apart, and marks spans that may lack some."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.spark import read_late, read_rollup
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.rollups.rollups import Done, Run
from tests.logs.records import T0, T1
from tests.spark.rollups.delivered import in_sql
from tests.spark.rollups.rolling import HOUR, feed, merged, recomputed


def run(spark: SparkSession, one: Rollup, log: EmbeddedLog, **options: Any) -> Done:
    (done,) = Run(spark, one, f"embedded:{log.path}", str(log.path / "out"), **options).commits()
    return done


def rows(spark: SparkSession, one: Rollup, log: EmbeddedLog) -> dict[tuple[int, str], int]:
    found = read_rollup(spark, str(log.path / "out"), one.name).selectExpr("unix_millis(hour) AS ms", "site", "n")
    return {(row.ms // HOUR, row.site): row.n for row in found.collect()}


def marked(spark: SparkSession, one: Rollup, log: EmbeddedLog) -> set[int]:
    found = read_rollup(spark, str(log.path / "out"), one.name)
    if "_incomplete" not in found.columns:
        return set()
    return {row[0] // HOUR for row in found.where("_incomplete").selectExpr("unix_millis(hour)").collect()}


def test_late_records_of_a_span_that_is_gone_are_kept_apart(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"), (2, "a 5"))
    run(spark, recomputed, log)
    log.delete_before(T0, 1)
    for number in range(2):
        feed(log, number, (1, f"late {number}"), (2, "a 5"), (9, "a 5"))
    with pytest.raises(StreamtopoError, match=r"older ones of it were deleted from t/0.*keep such records apart"):
        run(spark, recomputed, log, late="refuse")
    done = run(spark, recomputed, log)
    assert (done.records, done.late, done.buckets) == (6, 2, 2)
    assert rows(spark, recomputed, log) == {(1, "a"): 1, (2, "a"): 3, (9, "a"): 2}
    assert marked(spark, recomputed, log) == set()
    feed(log, 0, (1, "late 2"), (10, "a 5"))
    assert run(spark, recomputed, log).late == 1  # and again, in later runs
    late = read_late(spark, str(log.path / "out"), "recomputed").selectExpr("unix_millis(hour) AS ms", "*")
    assert late.columns == ["ms", "hour", "topic", "partition", "offset", "timestamp", "key", "value"]
    found = sorted((row.ms // HOUR, row.topic, row.partition, row.offset, row.value) for row in late.collect())
    assert found == [(1, "t", 0, 2, b"late 0"), (1, "t", 0, 5, b"late 2"), (1, "t", 1, 0, b"late 1")]


def test_late_records_are_merged_where_results_are(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 5"), (2, "a 5"))
    run(spark, merged, log)
    log.delete_before(T0, 2)
    feed(log, 0, (1, "a 5"))
    assert run(spark, merged, log).late == 0
    assert rows(spark, merged, log) == {(1, "a"): 2, (2, "a"): 1}


@pytest.mark.parametrize("one", [merged, recomputed], ids=lambda one: str(one.name))
def test_a_first_run_marks_the_spans_whose_beginning_is_gone(
    spark: SparkSession, log: EmbeddedLog, one: Rollup
) -> None:
    feed(log, 0, (1, "a 1"), (2, "a 1"), (2, "a 1"), (3, "a 1"))
    feed(log, 1, (1, "b 1"), (4, "b 1"))
    log.delete_before(T0, 2)
    done = run(spark, one, log)
    assert done.incomplete == {T0: (0, 2)}
    assert rows(spark, one, log) == {(2, "a"): 1, (3, "a"): 1, (1, "b"): 1, (4, "b"): 1}
    assert marked(spark, one, log) == {1, 2}
    feed(log, 1, (2, "b 1"), (3, "b 1"))
    assert run(spark, one, log).incomplete == {}
    assert marked(spark, one, log) == {1, 2}
    assert rows(spark, one, log)[2, "b"] == 1


def test_older_spans_that_are_left_out_lack_nothing(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 1"), (2, "a 1"), (5, "a 1"))
    log.delete_before(T0, 1)
    assert run(spark, merged, log, since=4 * HOUR).incomplete == {}
    assert marked(spark, merged, log) == set()
    feed(log, 0, (5, "a 1"), (6, "a 1"))
    log.delete_before(T0, 4)
    assert run(spark, merged, log).incomplete == {T0: (3, 4)}
    assert marked(spark, merged, log) == {5, 6}


def test_records_deleted_between_runs_mark_the_spans_between(spark: SparkSession, log: EmbeddedLog) -> None:
    into = f"sqlite:{log.path}/rows.db"
    feed(log, 0, (1, "a 1"), (2, "a 1"))
    feed(log, 1, (3, "b 1"), (9, "b 1"))
    run(spark, merged, log, into=into)
    before = read_rollup(spark, str(log.path / "out"), "merged")
    feed(log, 0, (2, "a 1"), (4, "a 1"), (5, "a 1"))
    log.delete_before(T0, 4)
    done = run(spark, merged, log, into=into)
    assert (done.incomplete, done.records) == ({T0: (2, 4)}, 1)
    assert rows(spark, merged, log) == {(1, "a"): 1, (2, "a"): 1, (5, "a"): 1, (3, "b"): 1, (9, "b"): 1}
    assert marked(spark, merged, log) == {2, 3, 5}
    assert before.columns == ["hour", "site", "n", "most"]
    assert before.count() == 4
    assert in_sql(into, "merged") == {(hour, site, n) for (hour, site), n in rows(spark, merged, log).items()}


def test_a_partition_that_was_emptied_is_told_when_records_come(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 1"))
    run(spark, merged, log)
    feed(log, 0, (2, "a 1"))
    log.delete_before(T0, 2)
    assert run(spark, merged, log).ranges == {}
    feed(log, 0, (3, "a 1"))
    done = run(spark, merged, log)
    assert (done.incomplete, done.ranges) == ({T0: (1, 2)}, {T0: (2, 3)})
    assert marked(spark, merged, log) == {1, 3}
    feed(log, 1, (2, "a 1"))  # a span that has no rows yet when it is marked
    assert run(spark, merged, log).incomplete == {}
    assert marked(spark, merged, log) == {1, 2, 3}
    assert T1 not in done.ranges
