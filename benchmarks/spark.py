"""python -m benchmarks.spark: how fast does Spark read the embedded log, compared with its own connector for Kafka?

And compared with reading the log's Arrow batches directly. With `--kafka URL`, the same records are on that broker.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import START, create, events, fill, repeating_users
from benchmarks.machine import commit, load, this_machine
from streamtopo.logs.embedded.arrow_log import ArrowLog, Slice, TimestampRange
from streamtopo.logs.opening import open_log
from streamtopo.records import TopicPartition
from streamtopo.spark import read_topic
from streamtopo.spark.session import open_spark, settings_for

Answer = tuple[Any, ...]


@dataclass
class Event:
    user: int
    page: str
    ts: int
    amount: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, once Spark is warm (default 3)")
    parser.add_argument(
        "--kafka", metavar="URL", default="", help="a running broker, such as of `streamtopo broker up`"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(f"filling {options.records:,} records; load {load()}", flush=True)
        topics = {url: filled(url, options.records) for url in (f"embedded:{directory}", options.kafka) if url}
        print("| what | records/s | seconds | first run |\n|---|--:|--:|--:|")
        settings = {"spark.ui.enabled": "false"} | settings_for(options.kafka)
        with open_spark("benchmark", settings=settings) as spark:
            for name, question in questions(spark, Path(directory), topics, options.records):
                show(name, options.records, [timed(question) for _ in range(options.runs + 1)])
    machine = this_machine()
    print(f"\n{machine.cpu}, {machine.cores} cores, Python {machine.python}, commit {commit()}, load {load()}")


def filled(url: str, records: int) -> str:
    """Fill a new topic, and return its name."""
    topic = f"events-{uuid.uuid4().hex[:8]}"
    with closing(open_log(url)) as log:
        create(log, topic)
        fill(log, topic, events(repeating_users(records)))
    return topic


def questions(
    spark: SparkSession, directory: Path, topics: dict[str, str], records: int
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the measured functions by name; each checks its result."""
    last = START + records - 1

    def counted(found: DataFrame) -> None:
        answer = found.agg(F.count("*"), F.unix_millis(F.max("timestamp"))).collect()[0]
        assert tuple(answer) == (records, last), answer

    def percentiles(url: str, topic: str) -> None:
        typed = read_topic(spark, url, topic, value=Event)
        by_user = typed.groupBy("user").agg(
            F.avg("amount"), F.percentile_approx("amount", 0.9), F.count("*").alias("n")
        )
        assert by_user.agg(F.sum("n")).collect()[0][0] == records

    yield (
        "Arrow, one process: count and newest",
        lambda: bare(directory, topics[f"embedded:{directory}"], records, last),
    )
    for url, topic in topics.items():
        which = url.partition(":")[0]
        whole = read_topic(spark, url, topic)
        newest = newest_only(spark, url, topic)
        yield f"Spark, {which}: count and newest", partial(counted, newest)
        yield f"Spark, {which}: the same with all columns", partial(counted, whole)
        yield f"Spark, {which}: `from_json`, mean and percentile of 10,000 keys", partial(percentiles, url, topic)


def newest_only(spark: SparkSession, url: str, topic: str) -> DataFrame:
    """Spark's connector reads whole records, whatever columns are selected."""
    if url.startswith("kafka:"):
        return read_topic(spark, url, topic)
    reader = spark.read.format("streamtopo").options(path=url.removeprefix("embedded:"), topic=topic)
    return reader.schema("timestamp timestamp").load()


def bare(directory: Path, topic: str, records: int, last: int) -> None:
    with closing(ArrowLog(directory)) as arrow_log:
        rows, newest = 0, 0
        for number, extent in arrow_log.extents(topic).items():
            whole = Slice(arrow_log.log, extent.topic, TopicPartition(topic, number), extent.start, extent.end)
            for batch in arrow_log.batches(whole, TimestampRange()):
                rows += batch.num_rows
                newest = max(newest, pc.max(batch.column("timestamp")).as_py())
    assert (rows, newest) == (records, last)


def timed(question: Callable[[], None]) -> float:
    began = time.perf_counter()
    question()
    return time.perf_counter() - began


def show(name: str, records: int, seconds: list[float]) -> None:
    first, *warm = seconds
    middle = statistics.median(warm)
    print(f"| {name} | {records / middle:,.0f} | {middle:.2f} | {first:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
