"""The files of a table: which ones a run replaces, and how Spark's tasks write new ones."""

from __future__ import annotations

import shutil
import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import Every, Rollup
from streamtopo.spark.delta.versions import DataFile

SMALLEST, LARGEST = 1 << 16, 1 << 25
"""Sizes of files, in bytes: all below the first one are alike, and those above the second one are left alone."""
FEW = 8
"""So many files of about the same size are made into one. A row is then written again once for each eightfold size."""
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other engines do not read INT96
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def touching(files: Sequence[DataFile], rollup: Rollup, buckets: Collection[int]) -> list[DataFile]:
    """The files that may have rows of these buckets."""
    wanted, name, every = sorted(buckets), rollup.bucket, rollup.every
    found = []
    for file in files:
        least, most = file.least.get(name), file.most.get(name)
        place = 0 if least is None else bisect_left(wanted, number_at(least, every))
        if place < len(wanted) and (most is None or wanted[place] <= number_at(most, every)):
            found.append(file)
    return found


def number_at(moment: date, every: Every) -> int:
    """The number of the bucket with this start."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return every.bucket((moment - _EPOCH) // timedelta(milliseconds=1))


def crowded(files: Sequence[DataFile]) -> list[DataFile]:
    """The small files of about the same size, if there are many of them."""
    alike: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.size < LARGEST:
            alike[max(file.size, SMALLEST).bit_length() // (FEW.bit_length() - 1)].append(file)
    return [file for several in alike.values() if len(several) >= FEW for file in several]


def write_files(rows: DataFrame, folder: Path) -> None:
    """Write Parquet as every engine reads it."""
    with _set(rows.sparkSession, _SETTINGS):
        rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(str(folder))
    for sums in folder.glob(".*.crc"):
        sums.unlink()


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) or "" for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def check_shared(spark: SparkSession, directory: Path) -> None:
    """Executors on other machines write to their own disks; Spark then commits nothing, without an error."""
    if str(spark.sparkContext.master).startswith("local"):
        return
    tasks, probe = spark.sparkContext.defaultParallelism, directory / f"0-{uuid.uuid4().hex[:8]}"
    spark.range(0, tasks, 1, tasks).write.parquet(str(probe))
    found = len(list(probe.glob("*.parquet")))
    shutil.rmtree(probe, ignore_errors=True)
    if found < tasks:
        raise StreamtopoError(
            f'executors do not write into "{directory}" of this machine; give an --out that they share with it'
        )
