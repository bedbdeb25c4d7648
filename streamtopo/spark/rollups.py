"""Rollups: tables that each run brings up to date from the records that are new, exactly once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declaring import Rollup
from streamtopo.spark.incoming import Extents, Incoming, Ranges, Touched, number_shown
from streamtopo.spark.tables import Bucket, Manifest, Table, files
from streamtopo.spark.topics import EmbeddedTopics

PAUSE = 1.0
"""Seconds between two looks for new records."""


@dataclass
class Done:
    """What a run did; `records` are new ones, `corrupt` those of them that were left out."""

    rollup: str
    ranges: Ranges
    records: int = 0
    buckets: int = 0
    rows: int = 0
    corrupt: int = 0
    bytes: int = 0
    seconds: float = 0.0


def read_rollup(spark: SparkSession, out: str, name: str) -> DataFrame:
    """The table as its last commit left it."""
    table = Table(Path(out).absolute() / name)
    manifest = table.manifest()
    if manifest is None:
        raise StreamtopoError(f'there is no rollup "{name}" in "{out}" yet; streamtopo rollup APP computes it')
    return frame(spark, table, sorted(files(manifest)), manifest.columns)


def frame(spark: SparkSession, table: Table, names: list[str], columns: str) -> DataFrame:
    """Of these files of the table."""
    if not names:
        return spark.createDataFrame([], columns)
    # So that Spark does not take `run=…` and `bucket=…` for columns.
    reader = spark.read.schema(columns).option("recursiveFileLookup", "true")
    return reader.parquet(*(str(table.directory / name) for name in names))


def commits(runs: Sequence[Run], trigger: str) -> Iterator[Done]:
    """Once, or for ever; then only what brought something new is told."""
    while True:
        for run in runs:
            for done in run.commits(several=trigger != "once"):
                if done.ranges or trigger != "continuous":
                    yield done
        if trigger != "continuous":
            return
        time.sleep(PAUSE)


class Run:
    """One rollup's table brought up to date, for the process that holds the table's lock."""

    def __init__(self, spark: SparkSession, rollup: Rollup, log: str, out: str, since: int | None = None) -> None:
        self._spark = spark
        self._rollup = rollup
        self._topics = EmbeddedTopics(spark, log)
        self._incoming = Incoming(rollup, self._topics)
        self._table = Table(Path(out).absolute() / rollup.name)
        self._since = None if since is None else rollup.every.start(rollup.every.bucket(since))

    def commits(self, *, several: bool = False) -> Iterator[Done]:
        """Up to the ends that the topics have now: in one commit, or in several of about a gigabyte of the log."""
        with self._table.locked():
            extents = self._incoming.extents()
            while True:
                manifest = self._manifest(extents)
                ranges = self._incoming.new(manifest, extents, several=several)
                if ranges:
                    self._table.sweep(manifest)  # not after a commit: there may be readers of what it replaced
                yield self._commit(manifest, ranges) if ranges else Done(self._rollup.name, {})
                if not several or all(end == extents[topic][n].end for (topic, n), (_, end) in ranges.items()):
                    return

    def _manifest(self, extents: Extents) -> Manifest:
        manifest = self._table.manifest()
        ids = {topic: partitions[0].topic for topic, partitions in extents.items()}
        if manifest is None:
            self._incoming.since = self._since
            return Manifest(self._rollup.definition() | {"since": self._since}, self._topics.id, ids)
        self._incoming.since = manifest.definition["since"] if self._since is None else self._since
        for name, now in (self._rollup.definition() | {"since": self._incoming.since}).items():
            if now != manifest.definition.get(name):
                raise StreamtopoError(
                    f'"{self._table.directory}" was computed with {name} = {manifest.definition.get(name)!r}, and now '
                    f"it is {now!r}; give the rollup another name, or remove the directory to compute it anew"
                )
        for topic, number in ids.items():
            if (manifest.log, manifest.topics[topic]) != (self._topics.id, number):
                raise StreamtopoError(
                    f'"{self._table.directory}" was computed from another topic of the name "{topic}"; give another '
                    "--out, or remove the directory to compute it anew"
                )
        return manifest

    # -- one commit

    def _commit(self, manifest: Manifest, ranges: Ranges) -> Done:
        began = time.monotonic()
        touched = self._incoming.touched(ranges)
        offsets = {str(source): span for source, span in ranges.items()}
        whole = {source: (manifest.offsets.get(source, span)[0], span[1]) for source, span in offsets.items()}
        manifest = replace(manifest, commit=manifest.commit + 1, offsets=manifest.offsets | whole, latest=offsets)
        done = Done(self._rollup.name, ranges, touched.records, len(touched.buckets), corrupt=touched.corrupt)
        if touched.buckets:
            manifest, done.rows = self._computed(manifest, ranges, touched)
        self._table.write(manifest)
        done.bytes, done.seconds = self._table.size(manifest), time.monotonic() - began
        return done

    def _computed(self, manifest: Manifest, ranges: Ranges, touched: Touched) -> tuple[Manifest, int]:
        """The manifest with the files of what was computed, and how many rows those have."""
        rollup = self._rollup
        result = rollup.function(*self._incoming.frames(manifest, ranges, touched))
        columns = self._checked(result, manifest)
        if rollup.merge:
            result = self._merged(result, manifest, touched, columns)
        run = f"run={manifest.commit}-{uuid.uuid4().hex[:8]}"
        numbered = result.withColumn("bucket", number_shown(F.col(rollup.bucket), rollup.every)).repartition("bucket")
        numbered.write.partitionBy("bucket").parquet(str(self._table.directory / run))
        written = self._table.written(run)
        if strange := written.keys() - {str(number) for number in touched.buckets}:
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns rows for another {rollup.bucket} than its records have '
                f"({', '.join(sorted(strange)[:3])}); leave the column as it is"
            )
        buckets = {
            str(number): Bucket(written.get(str(number), []), first | manifest.bucket(number).first)
            for number, first in touched.buckets.items()
        }
        manifest = replace(manifest, buckets=manifest.buckets | buckets, columns=columns)
        new = [file for several in written.values() for file in several]
        return manifest, frame(self._spark, self._table, new, columns).count()

    def _merged(self, result: DataFrame, manifest: Manifest, touched: Touched, columns: str) -> DataFrame:
        old = [file for number in touched.buckets for file in manifest.bucket(number).files]
        both = result if not old else result.unionByName(frame(self._spark, self._table, old, columns))
        merges = {"sum": F.sum, "min": F.min, "max": F.max}
        computed = [
            merges[how](name).cast(result.schema[name].dataType).alias(name) for name, how in self._rollup.merge.items()
        ]
        return both.groupBy(self._rollup.bucket, *self._rollup.keys).agg(*computed).select(*result.columns)

    def _checked(self, result: DataFrame, manifest: Manifest) -> str:
        rollup = self._rollup
        names = [rollup.bucket, *rollup.keys, *rollup.merge]
        lacking = [name for name in names if name not in result.columns]
        more = set(result.columns) - set(names) if rollup.merge else ()
        if lacking or more:
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns the columns {", ".join(result.columns)}; it needs '
                f"{', '.join(names)}{', and with merge no others' if rollup.merge else ''}"
            )
        columns = columns_of(result)
        if manifest.columns not in ("", columns):
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns {columns}, and its table has {manifest.columns}; give the rollup '
                f'another name, or remove "{self._table.directory}" to compute it anew'
            )
        return columns


def columns_of(found: DataFrame) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in found.schema.fields)
