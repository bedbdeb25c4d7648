"""A log's topics, as rollups read them: where partitions start and end, and their records between two offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtopo.logs.embedded.bulk import LEAST, MOST, Bulk, Slice, Times
from streamtopo.records import TopicPartition
from streamtopo.spark.source import register
from streamtopo.spark.typed import path_of


class Extent(NamedTuple):
    """Where a partition starts and ends, and the id that its topic has now."""

    topic: int | str
    start: int
    end: int


Span = tuple[int, int]
"""Offsets, the end excluded."""
COLUMNS = "key binary, value binary, partition int, offset long, timestamp timestamp"
"""What is read where nothing more was asked for: headers and topics cost time."""
EVERYTHING = Times()


class Topics(Protocol):
    id: str
    """The log's own."""

    def extents(self, topics: Iterable[str]) -> Mapping[str, Mapping[int, Extent]]: ...

    def portion(self, source: TopicPartition, extent: Extent, start: int, size: int) -> int:
        """Where to stop, to read about so many bytes from `start` on."""
        ...

    def read(
        self, topic: str, spans: Mapping[int, Span], times: Times = EVERYTHING, *, whole: bool = False
    ) -> DataFrame:
        """Keys and values in bytes; `whole` for all columns that a record has."""
        ...

    def stream(self, topic: str) -> DataFrame:
        """The same, without end."""
        ...

    def offsets(self, topic: str, text: str) -> dict[int, int]:
        """By partition, from the text of an offset of Spark's."""
        ...

    def appended(self, name: str) -> int:
        """The last number under which rows were appended by this name; 0 if there are none."""
        ...

    def append(self, topic: str, rows: DataFrame, name: str, number: int) -> None:
        """Key and value of each, all of them and the number, or nothing; nothing if the name has this number."""
        ...


class EmbeddedTopics:
    def __init__(self, spark: SparkSession, log: str) -> None:
        register(spark)
        self._spark = spark
        self._path = path_of(log)
        with closing(Bulk(self._path)) as bulk:
            self.id = bulk.log

    def extents(self, topics: Iterable[str]) -> Mapping[str, Mapping[int, Extent]]:
        with closing(Bulk(self._path)) as bulk:
            return {
                topic: {number: Extent(*extent) for number, extent in bulk.extents(topic).items()} for topic in topics
            }

    def portion(self, source: TopicPartition, extent: Extent, start: int, size: int) -> int:
        with closing(Bulk(self._path)) as bulk:
            assert isinstance(extent.topic, int)
            whole = Slice(bulk.log, extent.topic, source, start, extent.end)
            return next(bulk.slices(whole, Times(), size), whole).end

    def read(
        self, topic: str, spans: Mapping[int, Span], times: Times = EVERYTHING, *, whole: bool = False
    ) -> DataFrame:
        starts, ends = ({str(number): span[end] for number, span in spans.items()} for end in (0, 1))
        options = {
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
            "partitions": ",".join(starts),
        }
        if times.first > LEAST:
            options["startingTimestamp"] = str(times.first)
        if times.last < MOST:
            options["endingTimestamp"] = str(times.last + 1)
        reader = self._spark.read.format("streamtopo").options(path=self._path, topic=topic)
        reader = reader if whole else reader.schema(COLUMNS)
        return reader.options(**options).load() if spans else reader.load().where(F.lit(False))

    def stream(self, topic: str) -> DataFrame:
        return self._spark.readStream.format("streamtopo").options(path=self._path, topic=topic).load()

    def offsets(self, topic: str, text: str) -> dict[int, int]:
        return {int(name): end for name, end in json.loads(text).items() if name != "topic"}

    def appended(self, name: str) -> int:
        with closing(Bulk(self._path)) as bulk:
            return bulk.appended(name) or 0

    def append(self, topic: str, rows: DataFrame, name: str, number: int) -> None:
        write = rows.write.format("streamtopo").mode("append").options(path=self._path, topic=topic)
        write.options(commitId=name, commitNumber=str(number)).save()
