"""The output of a rollup: rows as files of its table, then the manifest, then the commits that its sink lacks."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.rollups.buckets import number_shown
from streamtopo.spark.rollups.tables import FOLDER, Bucket, Manifest, Table, files
from streamtopo.spark.sinks.delivery import Delivery, Sink

Firsts = Mapping[int, Mapping[str, int]]
"""The first offsets that count in each bucket, by its number."""


def read_rollup(spark: SparkSession, out: str, name: str) -> DataFrame:
    """The table, as of its last commit."""
    table = Table(Path(out).absolute() / name)
    manifest = table.manifest()
    if manifest is None:
        raise StreamtopoError(f'there is no rollup "{name}" in "{out}" yet; streamtopo rollup APP computes it')
    return frame(spark, table, sorted(files(manifest)), manifest.columns)


def frame(spark: SparkSession, table: Table, names: list[str], columns: str) -> DataFrame:
    """The rows of these files of the table."""
    if not names:
        return spark.createDataFrame([], columns)
    # Otherwise Spark reads `run=…` and `_bucket=…` as columns.
    reader = spark.read.schema(columns).option("recursiveFileLookup", "true")
    return reader.parquet(*(str(table.directory / name) for name in names))


def columns_of(found: DataFrame) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in found.schema.fields)


def check_shared(spark: SparkSession, directory: Path) -> None:
    """Executors on other machines write to their own disks; Spark then commits nothing, without an error."""
    if str(spark.sparkContext.master).startswith("local"):
        return
    tasks, probe = spark.sparkContext.defaultParallelism, directory / f"run=0-{uuid.uuid4().hex[:8]}"
    spark.range(0, tasks, 1, tasks).write.parquet(str(probe))
    found = len(list(probe.glob("*.parquet")))
    shutil.rmtree(probe, ignore_errors=True)
    if found < tasks:
        raise StreamtopoError(
            f'executors do not write into "{directory}" of this machine; give an --out that they share with it'
        )


class Output:
    def __init__(self, spark: SparkSession, rollup: Rollup, out: str, sink: Sink | None) -> None:
        self._spark = spark
        self._rollup = rollup
        self._sink = sink
        self.table = Table(Path(out).absolute() / rollup.name)
        self._shared = False
        """Whether the driver has found files that executors wrote."""

    def check_definition(self, manifest: Manifest, definition: Mapping[str, object]) -> None:
        for name, now in definition.items():
            if now != manifest.definition.get(name):
                raise StreamtopoError(
                    f'"{self.table.directory}" was computed with {name} = {manifest.definition.get(name)!r}, and now '
                    f"it is {now!r}; give the rollup another name, or remove the directory to compute it again"
                )

    def columns(self, result: DataFrame, manifest: Manifest) -> str:
        """The checked columns of the result of the rollup's function."""
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
                f'another name, or remove "{self.table.directory}" to compute it again'
            )
        return columns

    def there(self, manifest: Manifest, numbers: Iterable[int], columns: str) -> DataFrame | None:
        """The rows that the table has in these buckets."""
        names = [file for number in numbers for file in manifest.bucket(number).files]
        return frame(self._spark, self.table, names, columns) if names else None

    def written(self, manifest: Manifest, result: DataFrame, firsts: Firsts) -> tuple[Manifest, int]:
        """The manifest in which files of these rows replace those of their buckets, and the number of rows."""
        rollup, columns = self._rollup, columns_of(result)
        if not self._shared:
            check_shared(self._spark, self.table.directory)
            self._shared = True
        run = f"run={manifest.commit}-{uuid.uuid4().hex[:8]}"
        numbered = result.withColumn(FOLDER, number_shown(F.col(rollup.bucket), rollup.every)).repartition(FOLDER)
        numbered.write.partitionBy(FOLDER).parquet(str(self.table.directory / run))
        written = self.table.written(run)
        if strange := written.keys() - {str(number) for number in firsts}:
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns rows for another {rollup.bucket} than its records have '
                f"({', '.join(sorted(strange)[:3])}); leave the column as it is"
            )
        buckets = {
            str(number): Bucket(written.get(str(number), []), {**first, **manifest.bucket(number).first})
            for number, first in firsts.items()
        }
        replaced = [file for number in firsts for file in manifest.bucket(number).files]
        manifest = replace(manifest, changed=list(buckets), replaced=replaced, columns=columns)
        new = [file for several in written.values() for file in several]
        rows = frame(self._spark, self.table, new, columns).count()
        return replace(manifest, buckets=manifest.buckets | buckets), rows

    def commit(self, manifest: Manifest) -> None:
        self.table.write(manifest)
        self.deliver(manifest)

    def deliver(self, manifest: Manifest) -> None:
        """Send the sink the commits that it lacks. It stores their numbers with the rows, so it gets each once."""
        if self._sink is None or not manifest.columns:
            return
        last = self._sink.delivered(manifest.id)
        if last >= manifest.commit:
            return
        readable = all((self.table.directory / file).exists() for file in manifest.replaced)
        step = 0 < last == manifest.commit - 1 and readable
        numbers = manifest.changed if step else list(manifest.buckets)
        rows = [file for number in numbers for file in manifest.buckets[number].files]
        self._sink.deliver(
            Delivery(
                manifest.id,
                manifest.commit,
                json.dumps(manifest.offsets),
                frame(self._spark, self.table, rows, manifest.columns),
                frame(self._spark, self.table, manifest.replaced, manifest.columns) if step else None,
                [self._rollup.every.moment(int(number)) for number in numbers] if step else None,
            )
        )
