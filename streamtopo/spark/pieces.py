"""What tasks read: a topic cut into slices, and a slice as batches of Spark's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import InputPartition

from streamtopo.errors import LogError
from streamtopo.logs.embedded.bulk import Bulk, Slice
from streamtopo.logs.embedded.storage import Extent
from streamtopo.records import TopicPartition
from streamtopo.spark import columns
from streamtopo.spark.asked import Asked, Offsets


class Piece(InputPartition):
    """The slice that one task reads."""

    def __init__(self, slice: Slice) -> None:
        super().__init__(slice)
        self.slice = slice


def pieces(
    bulk: Bulk, asked: Asked, extents: Mapping[int, Extent], starts: Offsets, ends: Offsets
) -> list[InputPartition]:
    """Partition by partition; one empty piece where there is nothing, for Spark takes no pieces as one unknown."""
    found: list[InputPartition] = []
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


def _check_inside(whole: Slice, extent: Extent) -> None:
    for offset in (whole.start, whole.end):
        if not extent.start <= offset <= extent.end:
            raise LogError(
                f"offset {offset} of {whole.source} is outside of what the log has ({extent.start} to {extent.end}); "
                "older records were deleted, newer ones are not there yet"
            )
