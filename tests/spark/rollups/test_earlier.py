"""Tables from before they were Delta tables go on as Delta tables.

earlier.tar.xz is from commit b338a7d: a log with the topic "t"; the tables of `merged` (with a sink), `recomputed`,
`daily` and a view after two runs; and the table of a query.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.spark import read_rollup, rollup, view
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.rollups.queries import Query
from streamtopo.spark.rollups.rollups import Done, Run
from streamtopo.spark.rollups.turns import queried
from streamtopo.spark.rollups.views import refresh
from tests.long import long
from tests.spark.rollups.delivered import in_sql
from tests.spark.rollups.rolling import HOUR, answer, done_by, feed, merged, recomputed, rolled

daily = rollup("daily", every="1 day", keys=["site"], topic="t", value=str)(
    lambda t: t.selectExpr("day", "split(value, ' ')[0] AS site").groupBy("day", "site").count()
)


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with tarfile.open(Path(__file__).parent / "earlier.tar.xz") as packed:
        packed.extractall(tmp_path / "earlier", filter="data")
    log = EmbeddedLog(tmp_path / "earlier" / "log")
    yield log
    log.close()


def out_of(log: EmbeddedLog) -> Path:
    return log.path.parent / "out"


def run(spark: SparkSession, one: Rollup, log: EmbeddedLog, into: str | None = None) -> Done:
    (done,) = Run(spark, one, f"embedded:{log.path}", str(out_of(log)), into=into).commits()
    return done


def rows(spark: SparkSession, out: Path, one: Rollup) -> set[tuple[int, str, int]]:
    found = read_rollup(spark, str(out), one.name).selectExpr("unix_millis(hour)", "site", "n").collect()
    return {(ms // HOUR, site, n) for ms, site, n in found}


def expected(log: EmbeddedLog) -> set[tuple[int, str, int]]:
    return {(*key, n) for key, n in answer(log).items()}


def is_taken_over(directory: Path) -> bool:
    assert not list(directory.glob("run=*"))
    return (directory / "_delta_log").exists() and not (directory / "_manifest.json").exists()


def test_tables_and_their_sinks_go_on(spark: SparkSession, earlier: EmbeddedLog) -> None:
    out, into = out_of(earlier), f"sqlite:{out_of(earlier).parent}/rows.db"
    with pytest.raises(StreamtopoError, match=r'"merged" in .* was made by an earlier version .*; run'):
        read_rollup(spark, str(out), "merged")
    assert run(spark, merged, earlier, into).ranges == {}
    assert is_taken_over(out / "merged")
    assert rows(spark, out, merged) == expected(earlier) == in_sql(into, "merged")
    feed(earlier, 1, (1, "a 9"), (7, "new 1"))
    done = run(spark, merged, earlier, into)
    assert (done.records, done.buckets, done.rows) == (2, 2, 3)
    assert rows(spark, out, merged) == expected(earlier) == in_sql(into, "merged")
    assert run(spark, recomputed, earlier).records == 2  # in the run that takes the table over
    assert rows(spark, out, recomputed) == expected(earlier)
    run(spark, daily, earlier)
    found = DeltaTable(out / "daily").to_pyarrow_table().to_pylist()
    assert {(str(row["day"]), row["site"], row["count"]) for row in found} == {
        ("1969-12-30", "late", 1), ("1970-01-01", "a", 4), ("1970-01-01", "b", 1), ("1970-01-01", "new", 1),
    }  # fmt: skip


def test_views_and_queries_go_on(spark: SparkSession, earlier: EmbeddedLog) -> None:
    run(spark, merged, earlier)
    sites = view("sites", of=["merged"])(lambda found: found.groupBy("site").count())
    refresh(spark, sites, str(out_of(earlier)))
    assert is_taken_over(out_of(earlier) / "sites")
    assert read_rollup(spark, str(out_of(earlier)), "sites").count() == 3
    feed(earlier, 1, (3, "a 9"))
    out = out_of(earlier).parent / "query"
    query = Query(spark, recomputed, f"embedded:{earlier.path}", str(out), "update")
    assert sum(done.records for done in done_by(queried([query], "available-now"))) == 1
    assert is_taken_over(out / "recomputed")
    assert rows(spark, out, recomputed) == {(1, "a", 1), (1, "b", 1), (2, "a", 1), (3, "a", 1)}  # two came too late


@pytest.mark.parametrize("phase", ["before table", pytest.param("after table", marks=long)])
def test_taking_over_is_repeated_if_it_is_killed(spark: SparkSession, earlier: EmbeddedLog, phase: str) -> None:
    assert rolled(f"embedded:{earlier.path}", out_of(earlier), phase)
    run(spark, merged, earlier)
    assert is_taken_over(out_of(earlier) / "merged")
    assert len(list((out_of(earlier) / "merged").rglob("*.parquet"))) == 1
    assert rows(spark, out_of(earlier), merged) == expected(earlier)
