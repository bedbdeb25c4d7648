"""python -m benchmarks.spark: how fast does Spark read the embedded log, beside reading its Arrow batches bare?"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import START, create, events, fill, repeating_users
from benchmarks.machine import commit, load, this_machine
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.embedded.bulk import Bulk, Slice, Times
from streamtopo.records import TopicPartition
from streamtopo.spark import read_topic
from streamtopo.spark.session import open_spark

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
    parser.add_argument("--runs", type=int, default=3, help="of each, once Spark is warm (default 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(f"filling {options.records:,} records; load {load()}", flush=True)
        with closing(EmbeddedLog(directory, synchronous="normal")) as log:
            create(log, "events")
            fill(log, "events", events(repeating_users(options.records)))
        print("| what | records/s | seconds | first run |\n|---|--:|--:|--:|")
        with open_spark("benchmark", settings={"spark.ui.enabled": "false"}) as spark:
            for name, question in questions(spark, Path(directory), options.records):
                show(name, options.records, [timed(question) for _ in range(options.runs + 1)])
    machine = this_machine()
    print(f"\n{machine.cpu}, {machine.cores} cores, Python {machine.python}, commit {commit()}, load {load()}")


def questions(spark: SparkSession, directory: Path, records: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each checks its answer."""
    last = START + records - 1

    def frame(schema: str = "") -> DataFrame:
        reader = spark.read.format("streamtopo").options(path=str(directory), topic="events")
        return (reader.schema(schema) if schema else reader).load()

    def counted(found: DataFrame) -> None:
        answer = found.agg(F.count("*"), F.unix_millis(F.max("timestamp"))).collect()[0]
        assert tuple(answer) == (records, last), answer

    def percentiles() -> None:
        typed = read_topic(spark, f"embedded:{directory}", "events", value=Event)
        by_user = typed.groupBy("user").agg(
            F.avg("amount"), F.percentile_approx("amount", 0.9), F.count("*").alias("n")
        )
        assert by_user.agg(F.sum("n")).collect()[0][0] == records

    yield "Arrow, one process: count and newest", lambda: bare(directory, records, last)
    yield "Spark: count and newest", lambda: counted(frame("timestamp timestamp"))
    yield "Spark: the same with all columns", lambda: counted(frame())
    yield "Spark: `from_json`, mean and percentile of 10,000 keys", percentiles


def bare(directory: Path, records: int, last: int) -> None:
    with closing(Bulk(directory)) as bulk:
        rows, newest = 0, 0
        for number, extent in bulk.extents("events").items():
            whole = Slice(bulk.log, extent.topic, TopicPartition("events", number), extent.start, extent.end)
            for batch in bulk.batches(whole, Times()):
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
