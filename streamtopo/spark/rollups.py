"""Rollups: tables that each run brings up to date from the records that are new, exactly once."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded.bulk import Bulk, Slice, Times
from streamtopo.logs.embedded.storage import Extent
from streamtopo.records import TopicPartition
from streamtopo.serdes import BYTES
from streamtopo.spark.declaring import Every, Rollup
from streamtopo.spark.source import register
from streamtopo.spark.tables import Bucket, Manifest, Table, files
from streamtopo.spark.typed import CORRUPT, path_of, read_topic, typed

Ranges = Mapping[int, tuple[int, int]]
Touched = dict[int, dict[str, int]]
"""Buckets by number, and for each partition the first offset of the new records in them."""
BUCKET = "_bucket"
PAUSE = 1.0
"""Seconds between two looks for new records."""
COMMIT_BYTES = 1 << 30
"""Of the log, that one commit reads when there may be several."""
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""


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
    return _read(spark, table, sorted(files(manifest)), manifest.columns)


def _read(spark: SparkSession, table: Table, names: list[str], columns: str) -> DataFrame:
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
        register(spark)
        self._spark = spark
        self._rollup = rollup
        self._types = rollup.key or BYTES, rollup.value or BYTES
        self._log = log
        self._table = Table(Path(out).absolute() / rollup.name)
        self._since = None if since is None else rollup.every.start(rollup.every.bucket(since))

    def commits(self, *, several: bool = False) -> Iterator[Done]:
        """Up to the ends that the topic has now: in one commit, or in several of about a gigabyte of the log."""
        with self._table.locked():
            extents = self._extents()
            while True:
                manifest = self._manifest(extents)
                ranges = self._new(manifest, extents, several)
                if ranges:
                    self._table.sweep(manifest)  # not after a commit: there may be readers of what it replaced
                yield self._commit(manifest, ranges) if ranges else Done(self._rollup.name, {})
                if not several or all(end == extents[number].end for number, (_, end) in ranges.items()):
                    return

    # -- what is to be read

    def _extents(self) -> dict[int, Extent]:
        with closing(Bulk(path_of(self._log))) as bulk:
            self._log_id = bulk.log
            return bulk.extents(self._rollup.topic)

    def _manifest(self, extents: dict[int, Extent]) -> Manifest:
        manifest = self._table.manifest()
        definition = self._rollup.definition() | {"since": self._since}
        if manifest is None:
            return Manifest(definition, self._log_id, extents[0].topic)
        if self._since is None:
            self._since = manifest.definition["since"]
            definition["since"] = self._since
        for name, now in definition.items():
            if now != manifest.definition[name]:
                raise StreamtopoError(
                    f'"{self._table.directory}" was computed with {name} = {manifest.definition[name]!r}, and now it '
                    f"is {now!r}; give the rollup another name, or remove the directory to compute it anew"
                )
        if (manifest.log, manifest.topic) != (self._log_id, extents[0].topic):
            raise StreamtopoError(
                f'"{self._table.directory}" was computed from another topic of the name "{self._rollup.topic}"; give '
                "another --out, or remove the directory to compute it anew"
            )
        return manifest

    def _new(self, manifest: Manifest, extents: dict[int, Extent], several: bool) -> Ranges:
        found = {}
        with closing(Bulk(path_of(self._log))) as bulk:
            for number, extent in extents.items():
                start = manifest.offsets[str(number)][1] if str(number) in manifest.offsets else extent.start
                if start < extent.start:
                    raise StreamtopoError(
                        f"records {start} to {extent.start - 1} of {self._rollup.topic}/{number} were deleted before "
                        f'rollup "{self._rollup.name}" read them; keep them longer (retention.ms), and remove '
                        f'"{self._table.directory}" to compute it anew from what there is'
                    )
                source = TopicPartition(self._rollup.topic, number)
                whole = Slice(bulk.log, extent.topic, source, start, extent.end)
                pieces = bulk.slices(whole, Times(), COMMIT_BYTES // len(extents)) if several else iter(())
                found[number] = (start, next(pieces, whole).end)
        return {number: (start, end) for number, (start, end) in found.items() if start < end}

    # -- one commit

    def _commit(self, manifest: Manifest, ranges: Ranges) -> Done:
        began = time.monotonic()
        touched, records, corrupt = self._touched(ranges)
        offsets = {str(number): span for number, span in ranges.items()}
        whole = {number: (manifest.offsets.get(number, span)[0], span[1]) for number, span in offsets.items()}
        manifest = replace(manifest, commit=manifest.commit + 1, offsets=manifest.offsets | whole, latest=offsets)
        done = Done(self._rollup.name, ranges, records, len(touched), corrupt=corrupt)
        if touched:
            manifest, done.rows = self._computed(manifest, ranges, touched)
        self._table.write(manifest)
        done.bytes, done.seconds = self._table.size(manifest), time.monotonic() - began
        return done

    def _touched(self, ranges: Ranges) -> tuple[Touched, int, int]:
        """The buckets that new records are in, with their first offsets; how many are new, and how many corrupt."""
        source = self._spark.read.format("streamtopo").options(path=path_of(self._log), topic=self._rollup.topic)
        source = source.schema("key binary, value binary, partition int, offset long, timestamp timestamp")
        new = typed(source.options(**_options(ranges, self._since)).load(), *self._types)
        grouped = new.groupBy(self._number().alias(BUCKET), "partition").agg(
            F.count("*").alias("n"), F.min("offset").alias("first"), F.count_if(F.col(CORRUPT).isNotNull()).alias("bad")
        )
        touched: Touched = {}
        rows = grouped.collect()
        for row in rows:
            if row[BUCKET] is not None:
                touched.setdefault(row[BUCKET], {})[str(row.partition)] = row["first"]
        return touched, sum(row.n for row in rows), sum(row.n if row[BUCKET] is None else row.bad for row in rows)

    def _number(self) -> Column:
        """Of the record's bucket; null where the record's timestamp is of no year that a table can show."""
        every, millis = self._rollup.every, F.unix_millis("timestamp")
        inside = F.col("timestamp").isNotNull() & millis.between(_FIRST, _LAST)
        return F.when(inside, F.floor((millis - every.origin) / every.ms).cast("long"))

    def _computed(self, manifest: Manifest, ranges: Ranges, touched: Touched) -> tuple[Manifest, int]:
        """The manifest with the files of what was computed, and how many rows those have."""
        rollup = self._rollup
        records = self._records(manifest, ranges, touched).where(F.col(CORRUPT).isNull()).drop(CORRUPT)
        result = rollup.function(records.withColumn(rollup.bucket, _shown(F.col(BUCKET), rollup.every)).drop(BUCKET))
        columns = self._checked(result, manifest)
        if rollup.merge:
            result = self._merged(result, manifest, touched, columns)
        run = f"run={manifest.commit}-{uuid.uuid4().hex[:8]}"
        numbered = result.withColumn("bucket", _number_shown(F.col(rollup.bucket), rollup.every)).repartition("bucket")
        numbered.write.partitionBy("bucket").parquet(str(self._table.directory / run))
        written = self._table.written(run)
        if strange := written.keys() - {str(number) for number in touched}:
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns rows for another {rollup.bucket} than its records have '
                f"({', '.join(sorted(strange)[:3])}); leave the column as it is"
            )
        buckets = {
            str(number): Bucket(written.get(str(number), []), first | _bucket(manifest, number).first)
            for number, first in touched.items()
        }
        manifest = replace(manifest, buckets=manifest.buckets | buckets, columns=columns)
        new = [file for several in written.values() for file in several]
        return manifest, _read(self._spark, self._table, new, columns).count()

    def _records(self, manifest: Manifest, ranges: Ranges, touched: Touched) -> DataFrame:
        """What is to be computed from: new records where results are merged, else all records of what they touch."""
        rollup = self._rollup
        if rollup.merge:
            options = _options(ranges, self._since)
        else:
            starts = self._check_still_there(manifest, touched)
            spans = {int(number): span for number, span in manifest.offsets.items()}
            whole = {number: (max(start, starts[number]), end) for number, (start, end) in spans.items()}
            first, before = rollup.every.start(min(touched)), rollup.every.start(max(touched) + 1)
            options = _options(whole, first) | {"endingTimestamp": str(before)}
        key, value = self._types
        records = read_topic(self._spark, self._log, rollup.topic, key=key, value=value, options=options)
        return records.withColumn(BUCKET, self._number()).where(F.col(BUCKET).isin(list(touched)))

    def _check_still_there(self, manifest: Manifest, touched: Touched) -> dict[int, int]:
        """Returns where the partitions start."""
        starts = {number: extent.start for number, extent in self._extents().items()}
        for number in touched:
            for partition, first in _bucket(manifest, number).first.items():
                if first < starts[int(partition)]:
                    raise StreamtopoError(
                        f"new records belong to {self._rollup.bucket} {self._rollup.every.shown(number)}, and older "
                        f"ones of it were deleted from {self._rollup.topic}/{partition}, so that rollup "
                        f'"{self._rollup.name}" cannot compute it anew; declare merge=, or keep records longer '
                        "(retention.ms)"
                    )
        return starts

    def _merged(self, result: DataFrame, manifest: Manifest, touched: Touched, columns: str) -> DataFrame:
        old = [file for number in touched for file in _bucket(manifest, number).files]
        both = result if not old else result.unionByName(_read(self._spark, self._table, old, columns))
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
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in result.schema.fields)
        if manifest.columns not in ("", columns):
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns {columns}, and its table has {manifest.columns}; give the rollup '
                f'another name, or remove "{self._table.directory}" to compute it anew'
            )
        return columns


def _bucket(manifest: Manifest, number: int) -> Bucket:
    return manifest.buckets.get(str(number), Bucket([], {}))


def _shown(bucket: Column, every: Every) -> Column:
    """The start of a bucket: a date, or a time; whatever the session's time zone is."""
    start = bucket * every.ms + every.origin
    if every.whole_days:
        return F.date_add(F.lit("1970-01-01").cast("date"), (start / 86_400_000).cast("int"))
    return F.timestamp_millis(start)


def _number_shown(start: Column, every: Every) -> Column:
    """The bucket's number, from its start."""
    millis = F.unix_date(start).cast("long") * 86_400_000 if every.whole_days else F.unix_millis(start)
    return F.floor((millis - every.origin) / every.ms).cast("long")


def _options(ranges: Ranges, first: int | None) -> dict[str, str]:
    starts, ends = ({str(number): span[end] for number, span in ranges.items()} for end in (0, 1))
    options = {
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "partitions": ",".join(starts),
    }
    return options if first is None else options | {"startingTimestamp": str(first)}
