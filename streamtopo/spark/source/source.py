"""The Python Data Source "streamtopo": topics of the embedded log as tables, a task for each slice of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamtopo.errors import LogError
from streamtopo.logs.embedded.arrow_log import ArrowLog
from streamtopo.logs.embedded.storage.statements import PartitionExtent
from streamtopo.spark.decoding.decoding import decoding_of
from streamtopo.spark.source import columns
from streamtopo.spark.source.options import Asked, Offsets, asked
from streamtopo.spark.source.slices import pieces, read
from streamtopo.spark.source.stream import LogStreamReader
from streamtopo.spark.source.writer import LogWriter


def register(spark: SparkSession) -> None:
    """Register the data source: the session then knows `format("streamtopo")`."""
    spark.dataSource.register(LogSource)


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "streamtopo"

    def schema(self) -> StructType:
        serdes = asked(self.options).serdes
        return columns.SCHEMA if serdes is None else decoding_of(serdes).schema(columns.SCHEMA)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(asked(self.options), schema)

    def streamReader(self, schema: StructType) -> LogStreamReader:
        return LogStreamReader(asked(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter:
        return LogWriter(asked(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogWriter:
        return LogWriter(asked(self.options), schema, overwrite)


class LogReader(DataSourceReader):
    """Spark's Python API has no filters to push down before 4.1: partitions and times are options."""

    def __init__(self, asked: Asked, schema: StructType) -> None:
        self._asked = asked
        self._names = columns.asked(schema, asked.serdes)

    def partitions(self) -> list[InputPartition]:
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            extents = arrow_log.extents(self._asked.topic)
            starts = {number: extent.start for number, extent in extents.items()}
            ends = {number: extent.end for number, extent in extents.items()}
            starts.update(_known(self._asked.starts, extents))
            ends.update(_known(self._asked.ends, extents))
            return pieces(arrow_log, self._asked, extents, starts, ends)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._asked, self._names, partition)


def _known(offsets: Offsets, extents: dict[int, PartitionExtent]) -> Offsets:
    for number in offsets.keys() - extents.keys():
        raise LogError(f"there is no partition {number} to give an offset for; there are 0 to {len(extents) - 1}")
    return offsets
