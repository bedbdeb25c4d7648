"""Rollups, queries and typed columns from topics of Apache Kafka, with Spark's own connector."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs import Log, Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import read_rollup, read_topic
from tests.kafka.brokers import emptied
from tests.long import long
from tests.spark.clusters import cluster
from tests.spark.rollups.delivered import in_sql, in_topic
from tests.spark.rollups.rolling import HOUR, rolled

ROOT = Path(__file__).parents[3]


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    for topic in ("t", "out"):
        log.create(Topic(topic, 2, {"retention.ms": "-1"}))
    yield log
    log.close()


def test_rollups_from_kafka(kafka: str, log: KafkaLog, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.rollups.kafka_rolling", kafka, str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert written(log) == 2 + 3 + 3  # the last ones from another table, which lacks two rows
    seen = json.loads((tmp_path / "out.json").read_text())
    rows = [[HOUR, "a", 2], [HOUR, "b", 1], [2 * HOUR, "b", 1]]
    assert seen["rows"] == {"merged": rows, "recomputed": rows}
    assert seen["streamed"] == rows
    assert seen["seen"] == [[3, 1, 2]] * 3 + [[3, 1, 3]] * 3
    assert seen["sunk"] == [[[1, "a", 2], [1, "b", 1], [2, "b", 1]], [[2, "b", 1]]]
    assert seen["values"] == ["a 1", "a 2", "b 5", None, "b 5", None]


def written(log: Log) -> int:
    """Return the number of records, without the markers of transactions."""
    return sum(len(log.read(TopicPartition("out", number), 0, 1 << 30).offsets) for number in range(2))


@long
def test_a_cluster_reads_kafka(spark: SparkSession, kafka: str, log: KafkaLog, tmp_path: Path) -> None:
    for number, text in enumerate((b"a 5", b"b 5")):
        log.append(TopicPartition("t", number), Columns([None] * 2, [text, b"c 1"], [HOUR, 2 * HOUR]))
    command = [sys.executable, "-m", "streamtopo", "rollup", "tests.spark.rollups.clustered", "--json", "--log", kafka]
    with cluster(tmp_path) as master:
        command += ["--master", master, "--out", str(tmp_path / "out"), "--into", f"sqlite:{tmp_path}/rows.db"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout)["records"] == 4
    rows = read_rollup(spark, str(tmp_path / "out"), "merged").selectExpr("unix_millis(hour)", "site", "n")
    assert sorted(map(tuple, rows.collect())) == [(HOUR, "a", 1), (HOUR, "b", 1), (2 * HOUR, "c", 2)]
    assert in_sql(f"sqlite:{tmp_path}/rows.db", "merged") == {(1, "a", 1), (1, "b", 1), (2, "c", 2)}


@long
@pytest.mark.parametrize("phase", ["before transaction", "after transaction", "after commit"])
def test_a_killed_run_into_kafka_is_repeated(kafka: str, log: KafkaLog, tmp_path: Path, phase: str) -> None:
    for number, text in enumerate((b"a 5", b"b 5")):
        log.append(TopicPartition("t", number), Columns([None] * 2, [text, b"c 1"], [HOUR, 2 * HOUR]))
        assert rolled(kafka, tmp_path / "out", phase if number else "", "topic:out") == bool(number)
    assert not rolled(kafka, tmp_path / "out", "", "topic:out")
    assert in_topic(log) == {(1, "a", 1), (1, "b", 1), (2, "c", 2)}
    assert written(log) == 2 + 3


def test_a_missing_connector_is_reported(spark: SparkSession) -> None:
    with pytest.raises(StreamtopoError, match=r"no connector for Kafka; start it with spark\.jars\.packages=org"):
        read_topic(spark, "kafka://127.0.0.1:9", "t")
