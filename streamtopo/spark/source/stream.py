"""The data source as a stream: Spark keeps the position of each partition in its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from streamtopo.errors import ConfigError, LogError
from streamtopo.logs.embedded.arrow_log import ArrowLog
from streamtopo.spark.source import columns
from streamtopo.spark.source.options import Asked
from streamtopo.spark.source.slices import pieces, read


class LogStreamReader(DataSourceStreamReader):
    """An offset for Spark: the topic's id and the next offset of each partition, as text for JSON."""

    def __init__(self, asked: Asked, schema: StructType) -> None:
        if asked.ends:
            raise ConfigError("a stream has no endingOffsets; read it as a batch, or leave them out")
        self._asked = asked
        self._names = columns.asked(schema, asked.serdes)

    def initialOffset(self) -> dict[str, int]:
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            extents = arrow_log.extents(self._asked.topic)
        starts = {number: extent.start for number, extent in extents.items()} | dict(self._asked.starts)
        return _offset(extents[0].topic, starts)

    def latestOffset(self) -> dict[str, int]:
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            extents = arrow_log.extents(self._asked.topic)
        return _offset(extents[0].topic, {number: extent.end for number, extent in extents.items()})

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            extents = arrow_log.extents(self._asked.topic)
            if {start["topic"], end["topic"]} != {extents[0].topic}:
                raise LogError(
                    f'topic "{self._asked.topic}" was deleted and created again; start the query with a new checkpoint'
                )
            return pieces(arrow_log, self._asked, extents, _offsets(start), _offsets(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._asked, self._names, partition)


def _offset(topic: int, offsets: dict[int, int]) -> dict[str, int]:
    return {"topic": topic} | {str(number): offset for number, offset in offsets.items()}


def _offsets(offset: dict[str, int]) -> dict[int, int]:
    return {int(name): value for name, value in offset.items() if name != "topic"}
