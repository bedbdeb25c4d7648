"""The Python Data Source "streamtopo": topics of the embedded log as tables, a task for each slice of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamtopo.errors import LogError
from streamtopo.logs.embedded.bulk import Bulk, Slice
from streamtopo.logs.embedded.storage import Extent
from streamtopo.records import TopicPartition
from streamtopo.spark import columns
from streamtopo.spark.asked import Asked, Offsets, asked


def register(spark: SparkSession) -> None:
    """From now on this session knows `format("streamtopo")`."""
    spark.dataSource.register(LogSource)


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "streamtopo"

    def schema(self) -> StructType:
        return columns.SCHEMA

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(asked(self.options), schema)


class Piece(InputPartition):
    """The slice that one task reads."""

    def __init__(self, slice: Slice) -> None:
        super().__init__(slice)
        self.slice = slice


class LogReader(DataSourceReader):
    """Spark's Python API has no filters to push down before 4.1: partitions and times are options."""

    def __init__(self, asked: Asked, schema: StructType) -> None:
        columns.check(schema)
        self._asked = asked
        self._names = schema.fieldNames()

    def partitions(self) -> list[InputPartition]:
        with closing(Bulk(self._asked.path)) as bulk:
            extents = bulk.extents(self._asked.topic)
            starts = {number: extent.start for number, extent in extents.items()}
            ends = {number: extent.end for number, extent in extents.items()}
            starts.update(_known(self._asked.starts, extents))
            ends.update(_known(self._asked.ends, extents))
            return pieces(bulk, self._asked, starts, ends)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._asked, self._names, partition)


def pieces(bulk: Bulk, asked: Asked, starts: Offsets, ends: Offsets) -> list[InputPartition]:
    """Partition by partition; one empty piece where there is nothing, for Spark takes no pieces as one unknown."""
    found: list[InputPartition] = []
    extents = bulk.extents(asked.topic)
    for number in sorted(extents if asked.partitions is None else asked.partitions):
        source = TopicPartition(asked.topic, number)
        if number not in extents:
            raise LogError(f'topic "{asked.topic}" has the partitions 0 to {len(extents) - 1}, no {number}')
        whole = Slice(bulk.log, extents[number].topic, source, starts.get(number, 0), ends[number])
        _check_inside(whole, extents[number])
        found.extend(map(Piece, bulk.slices(whole, asked.times, asked.size)))
    return found or [Piece(Slice(bulk.log, 0, TopicPartition(asked.topic, 0), 0, 0))]


def read(asked: Asked, names: list[str], partition: InputPartition) -> Iterator[Any]:
    assert isinstance(partition, Piece)
    with closing(Bulk(asked.path)) as bulk:
        found = bulk.batches(partition.slice, asked.times)
        yield from columns.batches(found, partition.slice.source, names)


def _known(offsets: Offsets, extents: dict[int, Extent]) -> Offsets:
    for number in offsets.keys() - extents.keys():
        raise LogError(f"there is no partition {number} to give an offset for; there are 0 to {len(extents) - 1}")
    return offsets


def _check_inside(whole: Slice, extent: Extent) -> None:
    for offset in (whole.start, whole.end):
        if not extent.start <= offset <= extent.end:
            raise LogError(
                f"offset {offset} of {whole.source} is outside of what the log has ({extent.start} to {extent.end}); "
                "older records were deleted, newer ones are not there yet"
            )
