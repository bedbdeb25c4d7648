"""Rollups on a cluster whose executors have a Python of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.spark import read_rollup
from tests.spark.clusters import cluster
from tests.spark.rollups.rolling import HOUR, feed

APP = """
from pyspark.sql import functions as F
from streamtopo import StreamsBuilder
from streamtopo.spark import rollup

def loud(text):
    return text.upper()

@rollup("sites", every="1 hour", keys=["site"], topic="t", value=str)
def sites(readings):
    return readings.select("hour", F.udf(loud)("value").alias("site")).groupBy("hour", "site").count()

builder = StreamsBuilder("shipped")
builder.stream("t", value=str).to("out")
topology = builder.build()
"""


def python_in(folder: Path, name: str, *places: Path) -> Path:
    """Return a Python that has only the packages in these places, and no installed project."""
    file = folder / name
    path = ":".join(sorted(set(map(str, places))))
    file.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{path}" exec {sys.executable} -S "$@"\n')
    file.chmod(0o755)
    return file


def test_executors_get_the_package_and_the_application(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    feed(log, 0, (1, "a"), (1, "b"), (1, "a"))
    (tmp_path / "shipped.py").write_text(APP)
    installed = [Path(str(package.__file__)).parents[1] for package in (orjson, pa)]
    with cluster(tmp_path, workers=1, path="") as master:
        pythons = (python_in(tmp_path, "empty"), python_in(tmp_path, "sound", *installed))
        empty, sound = (rolled(tmp_path, log, master, python) for python in pythons)
    assert empty.returncode == 1
    message = empty.stderr.splitlines()[-1]  # newer versions of Spark say more before it
    assert 'the Python of Spark\'s tasks has no module "orjson"; install it there, or send an environment' in message
    assert sound.returncode == 0, sound.stderr[-3000:]
    rows = read_rollup(spark, str(tmp_path / "out"), "sites").selectExpr("unix_millis(hour)", "site", "count")
    assert sorted(map(tuple, rows.collect())) == [(HOUR, "A", 2), (HOUR, "B", 1)]


def rolled(folder: Path, log: EmbeddedLog, master: str, python: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamtopo", "rollup", "shipped", "--master", master, "--out", "out"]
    command += ["--log", f"embedded:{log.path}", "--conf", f"spark.pyspark.python={python}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
