"""A rollup of each kind over records "site value", and a process that runs one and dies at a given point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import rollup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtopo.spark.rollups.rollups import Done
    from streamtopo.spark.rollups.turns import Failed

ROOT = Path(__file__).parents[3]
HOUR = 3_600_000
SURVIVED = 7


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
    """Append records of these hours and values."""
    hours, values = zip(*rows, strict=True)
    times = [hour * HOUR + place for place, hour in enumerate(hours)]
    log.append(TopicPartition("t", partition), Columns([None] * len(rows), [text.encode() for text in values], times))


def done_by(turns: Generator[Done | Failed, None, None]) -> Generator[Done, None, None]:
    """Yield what was done; raise the first failure, and end the others then: they hold the locks of their tables."""
    from streamtopo.spark.rollups.turns import Failed

    with closing(turns):
        for news in turns:
            if isinstance(news, Failed):
                raise news.error
            yield news


def answer(log: EmbeddedLog, skip: bytes | None = None) -> Counter[tuple[int, str]]:
    """Count the records of each hour and site in plain Python."""
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


def die_when(something: Callable[[], Any]) -> None:
    while not something():
        time.sleep(0.002)
    die()


def die_after(seconds: float) -> None:
    time.sleep(seconds)
    die()


def prepare_to_die(phase: str, log: str, out: str) -> None:
    """Die while Spark writes files, or stages rows for a topic; before or after the table's commit, the rows of a
    database, a transaction of Kafka's, or the whole commit; or this many seconds from now on.
    """
    from streamtopo.logs.kafka.group.writers import TransactionalWriter
    from streamtopo.spark.delta import versions
    from streamtopo.spark.rollups.outputs import Output
    from streamtopo.spark.sinks.sql import SqlSink

    staging = Path(log.removeprefix("embedded:")) / "staging"
    watched: dict[str, Callable[[], Any]] = {
        "files": lambda: any(Path(out).rglob("_temporary")),
        "staging": lambda: any(staging.glob("*")),
    }
    calls: dict[str, tuple[Any, str]] = {
        "table": (versions, "commit"),
        "rows": (SqlSink, "_move"),
        "transaction": (TransactionalWriter, "commit"),
        "commit": (Output, "commit"),
    }
    when, _, what = phase.partition(" ")
    if what in watched:
        threading.Thread(target=die_when, args=(watched[what],), daemon=True).start()
    elif what in calls:
        owner, name = calls[what]
        setattr(owner, name, dying(getattr(owner, name), when))
    else:
        threading.Thread(target=die_after, args=(float(phase),), daemon=True).start()


def main(log: str, out: str, phase: str, *into: str) -> None:
    from streamtopo.spark.rollups.rollups import Run
    from streamtopo.spark.rollups.turns import commits
    from streamtopo.spark.session import open_spark, settings_for

    settings = settings_for(log) | {"spark.ui.enabled": "false"}
    with open_spark("dying", master="local[1]", settings=settings) as spark:
        if phase == "continuous":
            run = Run(spark, merged, log, out, into=next(iter(into), None))
            for done in done_by(commits([run], phase)):
                print(done.records, flush=True)  # noqa: T201
        if phase:
            prepare_to_die(phase, log, out)
        for _ in Run(spark, merged, log, out, into=next(iter(into), None)).commits():
            pass
    if phase:
        sys.exit(SURVIVED)


def rolled(log: str, out: Path, phase: str, *into: str) -> bool:
    """Run in a process that is killed in this phase; return False if it ended normally."""
    command = [sys.executable, "-m", "tests.spark.rollups.rolling", log, str(out), phase, *into]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode == 0 if not phase else child.returncode in (-signal.SIGKILL, SURVIVED), child.stderr
    return child.returncode < 0


@contextmanager
def rolling_on(log: str, out: Path, *into: str) -> Iterator[Iterator[str]]:
    """A process that goes on until it is killed at the end; yield a line for each of its commits."""
    command = [sys.executable, "-m", "tests.spark.rollups.rolling", log, str(out), "continuous", *into]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        yield iter(child.stdout)
        child.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
