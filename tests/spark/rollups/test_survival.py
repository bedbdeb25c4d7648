"""Rollups continue with new fields, and with executors on other machines."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns
from streamtopo.spark import read_rollup, rollup
from streamtopo.spark.rollups.rollups import Run
from tests.logs.records import T0
from tests.long import long
from tests.spark.clusters import cluster
from tests.spark.rollups.rolling import HOUR, answer, feed

ROOT = Path(__file__).parents[3]


@dataclass
class Old:
    site: str


@dataclass
class New:
    site: str
    quality: int = 100


def test_a_new_field_is_added_to_the_table(spark: SparkSession, log: EmbeddedLog) -> None:
    for number, (kind, value) in enumerate(((Old, b'{"site":"a"}'), (New, b'{"site":"a","quality":50}'))):
        log.append(T0, Columns([None], [value], [HOUR]))
        one = rollup("gained", every="1 hour", keys=["site"], topic="t", value=kind)(
            lambda records: records.groupBy("hour", "site").count()
        )
        (done,) = Run(spark, one, f"embedded:{log.path}", str(log.path / "out")).commits()
        assert (done.corrupt, done.rows) == (0, 1)
        (row,) = read_rollup(spark, str(log.path / "out"), "gained").collect()
        assert row[2] == number + 1


# -- a cluster


def rolled(log: EmbeddedLog, master: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamtopo", "rollup", "tests.spark.rollups.clustered", "--master", master]
    command += ["--log", f"embedded:{log.path}", "--out", str(folder / "out")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@long
def test_a_cluster_of_a_master_and_two_workers(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    for number in range(200):
        feed(log, number % 2, (number % 7, f"{'abc'[number % 3]} {number}"))
    with cluster(tmp_path) as master:
        done = rolled(log, master, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
    rows = (
        read_rollup(spark, str(tmp_path / "out"), "merged").selectExpr("unix_millis(hour) AS ms", "site", "n").collect()
    )
    assert {(row.ms // HOUR, row.site): row.n for row in rows} == answer(log)


@long
@pytest.mark.skipif(os.getuid() != 0, reason="only root can hide a directory from a process")
def test_executors_that_cannot_read_the_log_are_an_error(log: EmbeddedLog, tmp_path: Path) -> None:
    feed(log, 0, (1, "a 1"))
    hide = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none "{log.path}" && exec "$@"', "hidden"]
    with cluster(tmp_path, *hide) as master:
        done = rolled(log, master, tmp_path)
    assert done.returncode == 1
    message = done.stderr.rstrip().splitlines()[-1]
    assert (
        f'there is no log at "{log.path}" on this machine; an embedded log can only be read on its own host' in message
    )


@long
@pytest.mark.skipif(os.getuid() != 0, reason="only root can hide a directory from a process")
def test_executors_that_write_elsewhere_are_an_error(log: EmbeddedLog, tmp_path: Path) -> None:
    feed(log, 0, (1, "a 1"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    hide = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none "{elsewhere}" && exec "$@"', "hidden"]
    with cluster(tmp_path, *hide) as master:
        done = rolled(log, master, elsewhere)
    assert done.returncode == 1
    assert "executors do not write into" in done.stderr.rstrip().splitlines()[-1]
    assert not list(elsewhere.rglob("_delta_log"))
