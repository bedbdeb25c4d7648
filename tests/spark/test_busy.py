"""Reading while a worker writes as fast as it can, while the log is compacted, and while its oldest records are
deleted: each record of the planned range is read once, or an error gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo import StreamsBuilder, Worker
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import read_rollup
from streamtopo.spark.rollups.rollups import Run
from streamtopo.stores.backends.memory import MemoryStore
from tests.logs.records import T0, T1
from tests.spark.conftest import Read
from tests.spark.rollups.rolling import HOUR, answer, merged

AT_ONCE = 1000


@contextmanager
def in_parallel(turn: Callable[[int], object], turns: int) -> Iterator[Callable[[], bool]]:
    """Call `turn` this many times with its number, in a thread; yield a function that says whether it has ended."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: [turn(number) for number in range(turns)])
        yield done.done
        done.result()


def numbered(first: int) -> Columns:
    """Return records "a OFFSET", a thousand per hour."""
    offsets = range(first, first + AT_ONCE)
    return Columns([None] * AT_ONCE, [b"a %d" % n for n in offsets], [n * HOUR // 1000 for n in offsets])


def spans(found: DataFrame) -> dict[int, tuple[int, int]]:
    """Return the offsets of each partition, the end excluded; check that all between are there once and unchanged."""
    values = found.selectExpr("partition", "offset", "cast(split(cast(value AS string), ' ')[1] AS long) AS n")
    seen = values.groupBy("partition").agg(
        F.count("*").alias("rows"),
        F.count_distinct("offset").alias("offsets"),
        F.count_if(F.col("n") != F.col("offset")).alias("strange"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )
    found_spans = {}
    for row in seen.collect():
        assert row.rows == row.offsets == row.last + 1 - row.first
        assert row.strange == 0
        found_spans[row.partition] = (row.first, row.last + 1)
    return found_spans


def test_reading_while_a_worker_writes_at_full_speed(spark: SparkSession, log: EmbeddedLog, read: Read) -> None:
    log.create(Topic("in", 2))
    builder = StreamsBuilder("copying")
    builder.stream("in").to("t")
    worker = Worker(builder.build(), log, lambda stores, partition: MemoryStore(), commit_pause=0)
    run = Run(spark, merged, f"embedded:{log.path}", str(log.path / "out"))

    def turn(number: int) -> None:
        for partition in range(2):
            log.append(TopicPartition("in", partition), numbered(number * AT_ONCE))
        worker.run_once(0.01)

    new = 0
    with in_parallel(turn, 80) as ended:
        while not ended():
            least = {part.partition: log.end(part) for part in (T0, T1)}
            found = spans(read("partition int, offset long, value binary"))
            for part in (T0, T1):
                start, end = found.get(part.partition, (0, 0))
                assert (start, least[part.partition] <= end <= log.end(part)) == (0, True)
            new += sum(done.records for done in run.commits())
    worker.close()
    new += sum(done.records for done in run.commits())
    assert new == log.end(T0) + log.end(T1)
    rows = read_rollup(spark, str(log.path / "out"), "merged").selectExpr("unix_millis(hour) AS ms", "site", "n")
    assert {(row.ms // HOUR, row.site): row.n for row in rows.collect()} == answer(log)


def test_reading_while_the_oldest_records_are_deleted(log: EmbeddedLog, read: Read) -> None:
    log.append(T0, numbered(0))

    def turn(number: int) -> None:
        log.append(T0, numbered((number + 1) * AT_ONCE))
        if number % 4 == 3:
            log.delete_before(T0, log.end(T0) - AT_ONCE)
            log.clean()

    with in_parallel(turn, 1200) as ended:
        while not ended():
            try:
                found = spans(read("partition int, offset long, value binary", sliceBytes="100kB"))
            except PySparkException as error:
                if "were deleted" not in str(error):
                    raise
            else:
                assert 0 <= found[0][0] < found[0][1] <= log.end(T0)


def test_the_planned_range_is_read_from_compacted_batches(log: EmbeddedLog, read: Read) -> None:
    log.create(Topic("c", 1, {"cleanup.policy": "compact"}))
    part = TopicPartition("c", 0)
    for number in range(8):
        keys = [b"%d" % key for key in range(number * 100, number * 100 + 150)]  # a third is replaced by the next batch
        log.append(part, Columns([*keys], [b"x" * 100] * 150, [0] * 150))
    planned = read("key binary, offset long", topic="c", sliceBytes="1").rdd
    assert planned.getNumPartitions() == 8
    log.compact(part)
    kept = log.read(part, 0, 10_000)
    assert len(kept.offsets) == 8 * 100 + 50
    assert [(bytes(row.key), row.offset) for row in planned.collect()] == list(
        zip(kept.columns.keys, kept.offsets, strict=True)
    )
