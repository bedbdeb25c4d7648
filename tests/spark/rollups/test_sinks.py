"""Sinks of rollups: after each run they equal the table, even if earlier runs did not deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import TopicPartition
from streamtopo.spark import read_rollup, rollup
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.rollups.rollups import Run
from streamtopo.spark.sinks.sql import transaction
from tests.spark import postgres
from tests.spark.rollups.delivered import Rows, in_sql, in_topic
from tests.spark.rollups.rolling import HOUR, feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@rollup("leading", every="1 hour", keys=["site"], topic="t", value=str)
def leading(records: DataFrame) -> DataFrame:
    """Return the sites with the most records of an hour: they change."""
    counts = records.selectExpr("hour", "split(value, ' ')[0] AS site").groupBy("hour", "site").count()
    return counts.selectExpr("*", "max(count) OVER (PARTITION BY hour) AS most").where("count = most").drop("most")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.running() as url:
        yield url


@pytest.fixture(params=["topic", "sqlite", "postgresql"])
def sink(request: pytest.FixtureRequest, log: EmbeddedLog) -> tuple[str, Callable[[], Rows]]:
    """Return the target, and a function that reads its rows."""
    if request.param == "topic":
        log.create(Topic("out", 2))
        return "topic:out", lambda: in_topic(log)
    url = f"sqlite:{log.path}/rows.db" if request.param == "sqlite" else request.getfixturevalue("server")
    return url, lambda: in_sql(url, "leading")


def in_table(spark: SparkSession, log: EmbeddedLog) -> Rows:
    rows = read_rollup(spark, str(log.path / "out"), "leading").selectExpr("unix_millis(hour) ms", "site", "count")
    return {(row.ms // HOUR, row.site, row[2]) for row in rows.collect()}


def run(spark: SparkSession, log: EmbeddedLog, into: str | None, one: Rollup = leading) -> None:
    list(Run(spark, one, f"embedded:{log.path}", str(log.path / "out"), into=into).commits())


def test_a_sink_equals_the_table(spark: SparkSession, log: EmbeddedLog, sink: tuple[str, Callable[[], Rows]]) -> None:
    into, rows = sink
    feed(log, 0, (1, "a"), (1, "b"), (2, "b"), (-5, "c"))
    run(spark, log, into)
    assert rows() == in_table(spark, log) == {(1, "a", 1), (1, "b", 1), (2, "b", 1), (-5, "c", 1)}
    feed(log, 1, (1, "a"))
    run(spark, log, into)  # b is no longer leading
    assert rows() == in_table(spark, log) == {(1, "a", 2), (2, "b", 1), (-5, "c", 1)}
    feed(log, 1, (1, "b"), (1, "b"))
    run(spark, log, None)  # as if it had been killed between its two commits
    assert rows() != in_table(spark, log)
    ends = [log.end(TopicPartition("out", number)) for number in range(2)] if into == "topic:out" else []
    run(spark, log, into)
    assert rows() == in_table(spark, log) == {(1, "b", 3), (2, "b", 1), (-5, "c", 1)}
    if ends:  # what changed, and a row that was deleted
        assert sum(log.end(TopicPartition("out", number)) for number in range(2)) == sum(ends) + 2
    for record in ((1, "c"), (3, "a")):
        feed(log, 0, record)
        run(spark, log, None)
    run(spark, log, into)  # it missed two runs
    assert rows() == in_table(spark, log) == {(1, "b", 3), (2, "b", 1), (-5, "c", 1), (3, "a", 1)}


def test_a_recomputed_output_replaces_everything(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create(Topic("out", 2))
    feed(log, 0, (1, "a"), (2, "b"))
    run(spark, log, "topic:out")
    assert in_topic(log) == {(1, "a", 1), (2, "b", 1)}
    list(Run(spark, leading, f"embedded:{log.path}", str(log.path / "new"), 2 * HOUR, into="topic:out").commits())
    assert in_topic(log) == {(2, "b", 1)}


def test_results_do_not_depend_on_the_time_zone_of_the_session(spark: SparkSession, log: EmbeddedLog) -> None:
    """The same rows get the same keys, and a day is a day in UTC."""
    log.create(Topic("out", 2))
    daily = rollup("daily", every="1 day", topic="t")(lambda records: records.groupBy("day").count())
    feed(log, 0, (1, "a"), (23, "a"))
    try:
        for zone in ("America/New_York", "UTC", "Asia/Tokyo"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            feed(log, 0, (1, "a"), (24, "b"))
            run(spark, log, "topic:out")
            run(spark, log, f"sqlite:{log.path}/rows.db", daily)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert in_topic(log) == in_table(spark, log) == {(1, "a", 4), (23, "a", 1), (24, "b", 3)}
    with transaction(f"sqlite:{log.path}/rows.db") as database:
        assert set(database.execute("SELECT * FROM daily")) == {("1970-01-01", 5), ("1970-01-02", 3)}


def test_each_topic_gets_the_whole_table(spark: SparkSession, log: EmbeddedLog) -> None:
    for topic in ("first", "out"):
        log.create(Topic(topic, 2))
        feed(log, 0, (1 if topic == "first" else 2, "a"))
        run(spark, log, f"topic:{topic}")
    assert in_topic(log) == in_table(spark, log) == {(1, "a", 1), (2, "a", 1)}
    log.delete("out")
    log.create(Topic("out", 2))
    run(spark, log, "topic:out")
    assert in_topic(log) == in_table(spark, log)


def test_columns_in_sql_have_the_right_types(spark: SparkSession, log: EmbeddedLog) -> None:
    typed = rollup("kinds", every="1 day", topic="t")(
        lambda records: records.groupBy("day").agg({"timestamp": "max"}).selectExpr(
            "day", "`max(timestamp)` AS at", "CAST(1.25 AS DECIMAL(5, 2)) AS d", "true AS yes", "'%?' AS text",
            "CAST('NaN' AS DOUBLE) AS nan"
        )
    )  # fmt: skip
    feed(log, 0, (1, "a"))
    url = f"sqlite:{log.path}/rows.db"
    run(spark, log, url, typed)
    with transaction(url) as database:
        assert database.execute("SELECT * FROM kinds") == [("1970-01-01", "1970-01-01 01:00:00", 1.25, 1, "%?", None)]
    with postgres.running() as server:
        run(spark, log, server, typed)
        with transaction(server) as database:
            (row,) = database.execute("SELECT * FROM kinds")
    assert (row[:5], row[5] != row[5]) == (
        (date(1970, 1, 1), datetime(1970, 1, 1, 1, tzinfo=UTC), Decimal("1.25"), True, "%?"),
        True,
    )


@pytest.mark.parametrize(
    ("into", "message"),
    [
        ("file:x", '"file:x" is not a place for rows; give topic:NAME'),
        ("topic:t", 'reads "t", and cannot write into it too'),
        ("topic:nowhere", 'there is no topic "nowhere"'),
        ("sqlite:/nowhere/rows.db", "sqlite:/nowhere/rows.db: unable to open"),
        ("postgresql://someone:secret@127.0.0.1:1/x", r"^postgresql://\*\*\*@127.0.0.1:1/x: connection .*refused"),
        ("postgresql://someone:a@secret@127.0.0.1:1/x", r"x: failed to resolve host '\*\*\*@127.0.0.1'"),
        ("postgresql://127.0.0.1:1/x?password=%secret", r"invalid percent-encoded token: \"\*\*\*\""),
        ("user=someone password=secret", r'"user=\*\*\*" is not a place for rows'),
    ],
)
def test_unsuitable_sinks_are_refused(spark: SparkSession, log: EmbeddedLog, into: str, message: str) -> None:
    with pytest.raises(StreamtopoError, match=message) as raised:
        run(spark, log, into)
    assert "secret" not in str(raised.value)


def test_arrays_have_no_type_in_sql(spark: SparkSession, log: EmbeddedLog) -> None:
    feed(log, 0, (1, "a"))
    listed = rollup("listed", every="1 day", topic="t")(
        lambda records: records.groupBy("day").count().selectExpr("day", "array(count) AS counts")
    )
    with pytest.raises(StreamtopoError, match=r"column counts array<bigint> has no type in SQL; to_json\(counts\)"):
        run(spark, log, f"sqlite:{log.path}/rows.db", listed)
