"""The topics of a log, for rollups: where partitions start and end, and their records between two offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamtopo.logs.embedded.arrow_log import LEAST, MOST, ArrowLog, Slice, TimestampRange
from streamtopo.records import TopicPartition
from streamtopo.settings.times import time_text
from streamtopo.spark.source.columns import SCHEMA
from streamtopo.spark.source.source import register
from streamtopo.spark.topics.typed import Types, path_of


class Extent(NamedTuple):
    """The start and the end of a partition, and the current id of its topic."""

    topic: int | str
    start: int
    end: int


Span = tuple[int, int]
"""A range of offsets, excluding the end."""
COLUMNS = StructType([field for field in SCHEMA.fields if field.name not in ("headers", "topic")])
"""The columns that are read unless more are needed: headers and topics take time."""
EVERYTHING, AS_BYTES = TimestampRange(), Types()
_FIRST = -62_135_596_800_000
"""The year 1, the first that is written as a time."""


class Topics(Protocol):
    id: str
    """The id of the log."""

    def extents(self, topics: Iterable[str]) -> Mapping[str, Mapping[int, Extent]]: ...

    def portion(self, source: TopicPartition, extent: Extent, start: int, size: int) -> int:
        """The offset at which to stop, to read about `size` bytes from `start` on."""
        ...

    def read(
        self,
        topic: str,
        spans: Mapping[int, Span],
        times: TimestampRange = EVERYTHING,
        types: Types = AS_BYTES,
        *,
        whole: bool = False,
    ) -> DataFrame:
        """The records as `read_topic` shows them; with `whole`, all columns of a record."""
        ...

    def stream(self, topic: str, types: Types) -> DataFrame:
        """The records of a topic, as a streaming frame."""
        ...

    def offsets(self, topic: str, text: str) -> dict[int, int]:
        """The offset of each partition, from the text of a Spark offset."""
        ...

    def appended(self, name: str) -> int:
        """The last number that rows were appended with under this name; 0 if there are none."""
        ...

    def append(self, topic: str, rows: DataFrame, name: str, number: int) -> None:
        """Append, atomically, the rows' keys and values, and the number. Do nothing if this name already has it."""
        ...


class EmbeddedTopics:
    def __init__(self, spark: SparkSession, log: str) -> None:
        register(spark)
        self._spark = spark
        self._path = path_of(log)
        with closing(ArrowLog(self._path)) as arrow_log:
            self.id = arrow_log.log

    def extents(self, topics: Iterable[str]) -> Mapping[str, Mapping[int, Extent]]:
        with closing(ArrowLog(self._path)) as log:
            return {
                topic: {number: Extent(*extent) for number, extent in log.extents(topic).items()} for topic in topics
            }

    def portion(self, source: TopicPartition, extent: Extent, start: int, size: int) -> int:
        with closing(ArrowLog(self._path)) as arrow_log:
            assert isinstance(extent.topic, int)
            whole = Slice(arrow_log.log, extent.topic, source, start, extent.end)
            return next(arrow_log.slices(whole, TimestampRange(), size), whole).end

    def read(
        self,
        topic: str,
        spans: Mapping[int, Span],
        times: TimestampRange = EVERYTHING,
        types: Types = AS_BYTES,
        *,
        whole: bool = False,
    ) -> DataFrame:
        starts, ends = ({str(number): span[end] for number, span in spans.items()} for end in (0, 1))
        options = {
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
            "partitions": ",".join(starts),
        }
        if times.first > LEAST:
            options["startingTimestamp"] = time_text(max(times.first, _FIRST))
        if times.last < MOST:
            options["endingTimestamp"] = time_text(times.last + 1)
        reader = self._spark.read.format("streamtopo").options(path=self._path, topic=topic, **types.options)
        reader = reader.schema(types.schema(SCHEMA if whole else COLUMNS))
        return types.shown(reader.options(**options).load() if spans else reader.load().where(F.lit(False)))

    def stream(self, topic: str, types: Types) -> DataFrame:
        reader = self._spark.readStream.format("streamtopo").options(path=self._path, topic=topic, **types.options)
        return types.shown(reader.load())

    def offsets(self, topic: str, text: str) -> dict[int, int]:
        return {int(name): end for name, end in json.loads(text).items() if name != "topic"}

    def appended(self, name: str) -> int:
        with closing(ArrowLog(self._path)) as arrow_log:
            return arrow_log.appended(name) or 0

    def append(self, topic: str, rows: DataFrame, name: str, number: int) -> None:
        write = rows.write.format("streamtopo").mode("append").options(path=self._path, topic=topic)
        write.options(commitId=name, commitNumber=str(number)).save()
