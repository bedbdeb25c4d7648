"""Rollups, queries and typed columns from topics of Apache Kafka, by Spark's own connector."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.opening import open_log
from streamtopo.spark import read_topic
from tests.kafka import brokers
from tests.spark.rolling import HOUR

ROOT = Path(__file__).parents[2]


def test_rollups_from_kafka(tmp_path: Path) -> None:
    with brokers.running() as cluster:
        url = f"kafka://{cluster.address}"
        log = open_log(url)
        log.create(Topic("t", 2, {"retention.ms": "-1"}))
        command = [sys.executable, "-m", "tests.spark.kafka_rolling", url, str(tmp_path / "out")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        log.close()
    assert done.returncode == 0, done.stderr[-5000:]
    seen = json.loads((tmp_path / "out.json").read_text())
    rows = [[HOUR, "a", 2], [HOUR, "b", 1], [2 * HOUR, "b", 1]]
    assert seen["rows"] == {"merged": rows, "recomputed": rows}
    assert seen["streamed"] == rows
    assert seen["seen"] == [[3, 1, 2]] * 3 + [[3, 1, 3]] * 3
    assert seen["values"] == ["a 1", "a 2", "b 5", None, "b 5", None]


def test_without_the_connector_that_is_said(spark: SparkSession) -> None:
    with pytest.raises(StreamtopoError, match=r"no connector for Kafka; start it with spark\.jars\.packages=org"):
        read_topic(spark, "kafka://127.0.0.1:9", "t")
