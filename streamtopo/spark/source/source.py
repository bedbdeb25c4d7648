"""The Python Data Source "streamtopo": topics of the embedded log as tables, a task for each slice of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamtopo.errors import LogError
from streamtopo.logs.embedded.arrow_log import ArrowLog
from streamtopo.logs.embedded.storage.statements import PartitionExtent
from streamtopo.spark.decoding.decoding import decoding_of
from streamtopo.spark.source import columns
from streamtopo.spark.source.filters import EVERYTHING
from streamtopo.spark.source.options import Asked, Offsets, asked
from streamtopo.spark.source.slices import pieces, read
from streamtopo.spark.source.stream import LogStreamReader
from streamtopo.spark.source.writer import LogWriter

Extents = Mapping[int, PartitionExtent]


def register(spark: SparkSession) -> None:
    """Register the data source, for `format("streamtopo")` in this session."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")  # PySpark before 4.1 ignores it
    spark.dataSource.register(LogSource)


class LogSource(DataSource):
    """Made once for each `load()`: all queries of a frame read the same records, those of that moment, or fail."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._asked = asked(options)
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            self._extents = arrow_log.extents(self._asked.topic)

    @classmethod
    def name(cls) -> str:
        return "streamtopo"

    def schema(self) -> StructType:
        serdes = self._asked.serdes
        return columns.SCHEMA if serdes is None else decoding_of(serdes).schema(columns.SCHEMA)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(self._asked, schema, self._extents)

    def streamReader(self, schema: StructType) -> LogStreamReader:
        return LogStreamReader(self._asked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter:
        return LogWriter(self._asked, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogWriter:
        return LogWriter(self._asked, schema, overwrite)


class LogReader(DataSourceReader):
    """Spark hands filters to it since 4.1, and never the columns that are needed: these are in the schema."""

    def __init__(self, asked: Asked, schema: StructType, loaded: Extents) -> None:
        self._asked = asked
        self._names = columns.asked(schema, asked.serdes)
        self._loaded = loaded
        self._bounds = EVERYTHING

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Narrow what is read, and return all filters, because Spark has to apply them to the rows still."""
        self._bounds = self._bounds.narrowed(filters)
        self._asked = replace(self._asked, times=self._bounds.times(self._asked.times))
        return filters

    def partitions(self) -> list[InputPartition]:
        starts = {number: extent.start for number, extent in self._loaded.items()}
        ends = {number: extent.end for number, extent in self._loaded.items()}
        starts.update(_known(self._asked.starts, self._loaded))
        ends.update(_known(self._asked.ends, self._loaded))
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            now = arrow_log.extents(self._asked.topic)
            if now[0].topic != self._loaded[0].topic:
                raise LogError(f'topic "{self._asked.topic}" was deleted and created again; load it again')
            extents = {number: now[number] for number in self._loaded}
            return pieces(arrow_log, self._asked, extents, starts, ends, self._bounds)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._asked, self._names, partition)


def _known(offsets: Offsets, extents: Extents) -> Offsets:
    for number in offsets.keys() - extents.keys():
        raise LogError(f"there is no partition {number} to give an offset for; there are 0 to {len(extents) - 1}")
    return offsets
