"""A rollup of each kind over records "site value", and a process that runs one and dies where it is told to."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import rollup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOUR = 3_600_000


@rollup("merged", every="1 hour", keys=["site"], topic="t", value=str, merge={"n": "sum", "most": "max"})
def merged(readings: DataFrame) -> DataFrame:
    return readings.selectExpr("hour", "split(value, ' ')[0] site", "cast(split(value, ' ')[1] AS int) v").groupBy(
        "hour", "site").agg({"*": "count", "v": "max"}).selectExpr(
        "hour", "site", "`count(1)` AS n", "`max(v)` AS most")  # fmt: skip


@rollup("recomputed", every="1 hour", keys=["site"], topic="t", value=str)
def recomputed(readings: DataFrame) -> DataFrame:
    split = readings.selectExpr("hour", "split(value, ' ')[0] AS site", "split(value, ' ')[1] AS v")
    return split.groupBy("hour", "site").agg({"*": "count"}).withColumnRenamed("count(1)", "n")


def feed(log: EmbeddedLog, partition: int, *rows: tuple[int, str]) -> None:
    """Records of these hours and values."""
    hours, values = zip(*rows, strict=True)
    times = [hour * HOUR + place for place, hour in enumerate(hours)]
    log.append(TopicPartition("t", partition), Columns([None] * len(rows), [text.encode() for text in values], times))


def answer(log: EmbeddedLog, skip: bytes | None = None) -> Counter[tuple[int, str]]:
    """The records of each hour and site, counted in plain Python."""
    counted: Counter[tuple[int, str]] = Counter()
    for number in range(2):
        columns = log.read(TopicPartition("t", number), 0, 1 << 30).columns
        for moment, value in zip(columns.timestamps, columns.values, strict=True):
            assert value is not None
            if value == skip:
                continue
            counted[moment // HOUR, value.decode().partition(" ")[0]] += 1
    return counted


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function: Callable[..., Any], when: str) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **options: Any) -> Any:
        if when == "before":
            die()
        function(*arguments, **options)
        die()

    return wrapper


def die_while_spark_writes(directory: Path) -> None:
    while not any(directory.rglob("_temporary")):
        time.sleep(0.002)
    die()


def die_after(seconds: float) -> None:
    time.sleep(seconds)
    die()


def main(log: str, out: str, phase: str, *into: str) -> None:
    """Phases: while Spark writes files, just before and after the manifest is replaced, or so many seconds after the
    run began.
    """
    from streamtopo.spark.rollups import Run
    from streamtopo.spark.session import open_spark

    with open_spark("dying", master="local[1]", settings={"spark.ui.enabled": "false"}) as spark:
        if phase == "writing":
            threading.Thread(target=die_while_spark_writes, args=(Path(out),), daemon=True).start()
        elif phase in ("before", "after"):
            Path.rename = dying(Path.rename, phase)  # type: ignore[method-assign]
        else:
            threading.Thread(target=die_after, args=(float(phase),), daemon=True).start()
        for _ in Run(spark, merged, log, out, into=next(iter(into), None)).commits():
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.exit(f"{Path(__file__).name}: it did not die")
