"""Reconciling: what is a difference, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes import FLOAT, INT
from streamtopo.spark import expected
from streamtopo.spark.reports.reconciliation import Reconciled, reconcile
from tests.logs.records import T0
from tests.spark.working import work

OUT = TopicPartition("out", 0)


def counting() -> Topology:
    builder = StreamsBuilder("counting")
    counts = builder.stream("t", value=str).group_by(lambda _, word: word, key=str).count(name="counts")
    counts.to_stream().to("out")
    return builder.build()


@pytest.fixture
def compare(spark: SparkSession, log: EmbeddedLog) -> Callable[..., Reconciled]:
    """Compare the topic "out" of a topology that counts with what SQL computes from "t"."""
    log.create(Topic("out", 1))
    log.append(T0, Columns([None] * 3, [b"a", b"b", b"a"], [0] * 3))

    def compare(value: str, topology: Topology | None = None) -> Reconciled:
        topology = topology or counting()
        if not log.end(OUT):
            work(log, topology)

        def wanted(t: DataFrame) -> DataFrame:
            return t.groupBy("value").count().selectExpr("value AS key", f"{value} AS value")

        return reconcile(spark, topology, expected("out", inputs=["t"])(wanted), f"embedded:{log.path}")

    return compare


def test_a_value_of_another_type_must_be_the_same_number(compare: Any) -> None:
    assert [compare(value).differences for value in ("count", "count + 0.0", "cast(count AS string)")] == [0, 0, 0]
    assert [compare(value).differences for value in ("count + 0.9", "concat('0', count)")] == [2, 2]


def test_an_unreadable_output_record_is_a_difference(compare: Any, log: EmbeddedLog) -> None:
    assert compare("count").differences == 0
    log.append(OUT, Columns([b"a", b"\xff"], [b"garbage", INT.encode(1)], [0, 0]))
    assert compare("count").differences == 2


def test_sums_of_fractions_may_differ_in_their_last_digits(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create(Topic("out", 1))
    builder = StreamsBuilder("summing")
    builder.stream("t", key=str, value=float).group_by_key().reduce(lambda a, b: a + b, name="sums").to_stream().to(
        "out"
    )
    topology, values = builder.build(), [0.1, 0.2, 0.3]
    log.append(T0, Columns([b"a"] * 3, [FLOAT.encode(value) for value in values], [0] * 3))
    work(log, topology)
    for error, differences in ((0.0, 0), (1e-6, 1)):
        total = expected("out", inputs=["t"])(
            lambda t, error=error: t.groupBy("key").count().selectExpr("key", f"0.3D + 0.2D + 0.1D + {error}D AS value")
        )
        assert reconcile(spark, topology, total, f"embedded:{log.path}").differences == differences
