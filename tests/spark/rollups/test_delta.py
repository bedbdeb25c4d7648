"""Tables are Delta tables: other engines read them and may tidy them up, and earlier versions stay readable."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns
from streamtopo.spark import read_rollup, rollup
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.delta.files import FEW
from streamtopo.spark.rollups import tables
from streamtopo.spark.rollups.rollups import Done, Run
from streamtopo.spark.rollups.tables import Table
from tests.logs.records import T0
from tests.spark.rollups.rolling import HOUR, answer, feed, merged, recomputed

Row = tuple[int, str, int]


def run(spark: SparkSession, one: Rollup, log: EmbeddedLog, **options: Any) -> Done:
    (done,) = Run(spark, one, f"embedded:{log.path}", str(log.path / "out"), **options).commits()
    return done


def by_streamtopo(path: Path, spark: SparkSession) -> set[Row]:
    found = read_rollup(spark, str(path.parent), path.name).selectExpr("unix_millis(hour)", "site", "n")
    return {(ms // HOUR, site, n) for ms, site, n in found.collect()}


def shown(rows: list[dict[str, Any]]) -> set[Row]:
    assert len(rows) == len({(row["hour"], row["site"]) for row in rows})
    return {(round(row["hour"].timestamp() * 1000) // HOUR, row["site"], row["n"]) for row in rows}


def by_deltalake(path: Path) -> set[Row]:
    return shown(DeltaTable(path).to_pyarrow_table().to_pylist())


def by_polars(path: Path) -> set[Row]:
    return shown(polars.scan_delta(str(path)).collect().to_dicts())


def by_duckdb(path: Path) -> set[Row]:
    """Its extension for Delta would be fetched from the network; deltalake tells it the files instead."""
    found = duckdb.execute("SELECT * FROM read_parquet(?)", [DeltaTable(path).file_uris()])
    names = [column[0] for column in found.description]
    return shown([dict(zip(names, row, strict=True)) for row in found.fetchall()])


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_engine_reads_the_same_rows(spark: SparkSession, log: EmbeddedLog, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for hours in ((1, 2, -9), (2, 30), (-9, 99)):
            feed(log, 0, *((hour, "a 1") for hour in hours))
            for one in (merged, recomputed):
                run(spark, one, log)
                path = log.path / "out" / one.name
                rows = {(hour, site, n) for (hour, site), n in answer(log).items()}
                assert by_streamtopo(path, spark) == by_deltalake(path) == by_polars(path) == by_duckdb(path) == rows
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    since = datetime(1970, 1, 2, tzinfo=UTC)
    chosen = polars.scan_delta(str(path)).filter(polars.col("hour") >= since)  # with the statistics of the files
    assert chosen.collect().height == 2


def test_earlier_versions_stay_readable(spark: SparkSession, log: EmbeddedLog) -> None:
    versions = []
    for hour in range(4):
        feed(log, 0, (hour, "a 1"), (0, "a 1"))
        run(spark, merged, log)
        versions.append(
            (read_rollup(spark, str(log.path / "out"), "merged"), set(answer(log).items()), datetime.now(UTC))
        )
    table = DeltaTable(log.path / "out" / "merged")
    assert [entry["offsets"] for entry in table.history()][:2] == ['{"t/0": [0, 8]}', '{"t/0": [0, 6]}']
    for number, (frame, expected, moment) in enumerate(versions):
        for as_of in (number, moment):
            then = read_rollup(spark, str(log.path / "out"), "merged", as_of=as_of)
            for rows in (frame, then):
                found = rows.selectExpr("unix_millis(hour)", "site", "n").collect()
                assert {((ms // HOUR, site), n) for ms, site, n in found} == expected
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    feed(log, 1, (2, "b 1"))
    run(spark, merged, log)
    assert by_deltalake(log.path / "out" / "merged") == {(*key, n) for key, n in answer(log).items()}


def test_replaced_files_are_deleted_when_they_are_old(
    spark: SparkSession, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log.path / "out" / "merged"
    for _ in range(3):
        feed(log, 0, (1, "a 1"))
        run(spark, merged, log)
    monkeypatch.setattr(tables, "VACUUM_EVERY", -1)
    for duration, files in (("interval 1 week", 4), ("interval 0 days", 1)):
        DeltaTable(path).alter.set_table_properties({"delta.deletedFileRetentionDuration": duration})
        feed(log, 0, (1, "a 1"))
        run(spark, merged, log)
        assert len(list(path.glob("*-*"))) == len(list(path.rglob("*.parquet"))) == files
    assert by_deltalake(path) == by_streamtopo(path, spark) == {(1, "a", 5)}


@pytest.mark.parametrize("one", [merged, recomputed], ids=lambda one: str(one.name))
def test_other_engines_may_rewrite_files(spark: SparkSession, log: EmbeddedLog, one: Rollup) -> None:
    path, dice = log.path / "out" / one.name, random.Random(3)
    for turn in range(6):
        feed(log, turn % 2, *((dice.randrange(-3, 40), f"{dice.choice('ab')} 1") for _ in range(5)))
        run(spark, one, log)
        if turn % 2:
            DeltaTable(path).optimize.compact()
            assert len(DeltaTable(path).file_uris()) == 1
        if turn == 3:
            DeltaTable(path).optimize.z_order(["site"])
            DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        assert by_streamtopo(path, spark) == by_polars(path) == {(*key, n) for key, n in answer(log).items()}


def test_a_second_writer_is_refused(spark: SparkSession, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the lock does not reach, as on some network file systems."""
    feed(log, 0, (1, "a 1"))
    run(spark, merged, log)
    feed(log, 0, (1, "a 1"))
    first = Run(spark, merged, f"embedded:{log.path}", str(log.path / "out"))
    write = first._output.written

    def overtaken(*arguments: Any) -> Any:
        written = write(*arguments)
        assert run(spark, merged, log).rows == 1
        return written

    monkeypatch.setattr(Table, "locked", lambda self: nullcontext())
    monkeypatch.setattr(first._output, "written", overtaken)
    with pytest.raises(StreamtopoError, match=r'another process has changed ".*merged" meanwhile; run this again'):
        list(first.commits())
    assert run(spark, merged, log).ranges == {}
    assert by_deltalake(log.path / "out" / "merged") == {(1, "a", 2)}


def test_tiny_runs_leave_few_files(spark: SparkSession, log: EmbeddedLog) -> None:
    most = 0
    for hour in range(2 * FEW + 2):
        feed(log, 0, (hour, "a 1"))
        run(spark, merged, log)
        most = max(most, len(DeltaTable(log.path / "out" / "merged").file_uris()))
    assert most == FEW
    assert by_polars(log.path / "out" / "merged") == {(hour, "a", 1) for hour in range(2 * FEW + 2)}


def test_spans_are_packed_into_files(spark: SparkSession, log: EmbeddedLog) -> None:
    minutes = rollup("minutes", every="1 minute", topic="t", merge={"n": "sum"})(
        lambda t: t.groupBy("minute").count().withColumnRenamed("count", "n")
    )
    log.append(T0, Columns([None] * 3000, [b""] * 3000, [minute * 60_000 for minute in range(3000)]))
    assert (run(spark, minutes, log).rows, len(list((log.path / "out").rglob("*.parquet")))) == (3000, 1)
    feed(log, 1, (1, ""))
    assert run(spark, minutes, log).rows == 1
    found = read_rollup(spark, str(log.path / "out"), "minutes")
    assert (found.count(), found.where("n = 2").selectExpr("unix_millis(minute)").collect()) == (3000, [(HOUR,)])


KINDS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a day to second": lambda t: t.selectExpr("hour", "timestamp - hour AS a"),
    "a void": lambda t: t.selectExpr("hour", "null AS a"),
    "a variant": lambda t: t.selectExpr("hour", "parse_json('1') AS a"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_delta_lacks_are_refused(spark: SparkSession, log: EmbeddedLog, kind: str) -> None:
    feed(log, 0, (1, "a"))
    with pytest.raises(StreamtopoError, match=r"column a .* has no type in a Delta table; cast it"):
        run(spark, rollup("odd", every="1 hour", topic="t", value=str)(KINDS[kind]), log)


def test_a_table_of_another_program_is_left_alone(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a 1"))
    write_deltalake(log.path / "out" / "merged", pa.table({"a": [1]}))
    with pytest.raises(StreamtopoError, match='merged" is a table that no rollup has made; give another --out'):
        run(spark, merged, log)
