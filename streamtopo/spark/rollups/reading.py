"""Tables as frames: their rows, as of any version that is still there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.delta import versions
from streamtopo.spark.delta.columns import schema_of
from streamtopo.spark.delta.versions import DataFile, Version
from streamtopo.spark.rollups.earlier import is_earlier
from streamtopo.spark.rollups.tables import LATE, Table

LATE_COLUMNS = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"
"""Columns of late records, after the start of their span."""


def read_rollup(spark: SparkSession, out: str, name: str, *, as_of: int | datetime | None = None) -> DataFrame:
    """The table, as of its last commit, or as of a version of the Delta table, or a time."""
    directory = Path(out).absolute() / name
    version = versions.version_of(directory, as_of=as_of)
    if version is None:
        raise _missing(out, name)
    return frame_of(spark, directory, version, version.files)


def read_late(spark: SparkSession, out: str, name: str) -> DataFrame:
    """The records that came too late: others of their span had been deleted, so it could not be computed again."""
    directory = Path(out).absolute() / name
    state = Table(directory).state()
    if state is None:
        raise _missing(out, name)
    kind = "date" if state.definition["every"].rstrip("s").endswith(("day", "week")) else "timestamp"
    unit = state.definition["every"].partition(" ")[2].removesuffix("s")
    columns = f"`{unit}` {kind}, {LATE_COLUMNS}"
    folders = [str(directory / LATE / run) for run in state.late]
    return spark.read.schema(columns).parquet(*folders) if folders else spark.createDataFrame([], columns)


def _missing(out: str, name: str) -> StreamtopoError:
    if is_earlier(Path(out) / name):
        return StreamtopoError(
            f'"{name}" in "{out}" was made by an earlier version of streamtopo; run streamtopo rollup APP once'
        )
    return StreamtopoError(f'there is no rollup "{name}" in "{out}" yet; streamtopo rollup APP computes it')


def frame_of(spark: SparkSession, directory: Path, version: Version, files: Sequence[DataFile]) -> DataFrame:
    """The rows of these files, which may be of an earlier version."""
    schema = schema_of(version.columns)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(str(directory / file.path) for file in files))
