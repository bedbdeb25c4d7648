"""The slices of a topic that Spark's tasks read, and the batches of columns of a slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import InputPartition

from streamtopo.errors import LogError
from streamtopo.logs.embedded.arrow_log import ArrowLog, Slice
from streamtopo.logs.embedded.storage.statements import PartitionExtent
from streamtopo.records import TopicPartition
from streamtopo.spark.decoding.decoding import batches as decoded
from streamtopo.spark.source import columns
from streamtopo.spark.source.filters import EVERYTHING, Bounds
from streamtopo.spark.source.options import Asked, Offsets


class Piece(InputPartition):
    """The slice that one task reads."""

    def __init__(self, slice: Slice) -> None:
        super().__init__(slice)
        self.slice = slice


def pieces(
    arrow_log: ArrowLog,
    asked: Asked,
    extents: Mapping[int, PartitionExtent],
    starts: Offsets,
    ends: Offsets,
    bounds: Bounds = EVERYTHING,
) -> list[InputPartition]:
    """The slices of all partitions; one empty slice if there is no data, because Spark needs at least one."""
    found: list[InputPartition] = []
    for number in sorted(extents if asked.partitions is None else asked.partitions):
        source = TopicPartition(asked.topic, number)
        if number not in extents:
            raise LogError(f'topic "{asked.topic}" has the partitions 0 to {len(extents) - 1}, no {number}')
        whole = Slice(arrow_log.log, extents[number].topic, source, starts.get(number, 0), ends[number])
        _check_inside(whole, extents[number])
        start, last = bounds.between("offset", whole.start, whole.end - 1)
        if start <= last and bounds.has("partition", number):
            narrowed = whole._replace(start=start, end=last + 1)
            found.extend(map(Piece, arrow_log.slices(narrowed, asked.times, asked.size)))
    return found or [Piece(Slice(arrow_log.log, 0, TopicPartition(asked.topic, 0), 0, 0))]


def read(asked: Asked, names: list[str], partition: InputPartition) -> Iterator[Any]:
    assert isinstance(partition, Piece)
    with closing(ArrowLog(asked.path)) as arrow_log:
        found = arrow_log.batches(partition.slice, asked.times)
        records = columns.batches(found, partition.slice.source, names)
        yield from records if asked.serdes is None else decoded(asked.serdes, records)


def _check_inside(whole: Slice, extent: PartitionExtent) -> None:
    for offset in (whole.start, whole.end):
        if not extent.start <= offset <= extent.end:
            raise LogError(
                f"offset {offset} of {whole.source} is not in the log (it has {extent.start} to {extent.end}); "
                "older records were deleted, newer ones are not written yet"
            )
