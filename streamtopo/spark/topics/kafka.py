"""Topics of Apache Kafka, read by Spark's own connector."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import LogError
from streamtopo.logs.embedded.arrow_log import LEAST, MOST, TimestampRange
from streamtopo.logs.opening import open_log, shown_log
from streamtopo.partitioning import partitions_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark.topics.connector import checked, options_of
from streamtopo.spark.topics.topics import AS_BYTES, EVERYTHING, Extent, Span
from streamtopo.spark.topics.typed import Types
from streamtopo.wall_clock import wall_clock

if TYPE_CHECKING:
    from streamtopo.logs.kafka import KafkaLog

COLUMNS = ("key", "value", "partition", "offset", "timestamp")
BYTES = 100
"""The assumed size of a record, because brokers return offsets but not sizes."""
ROWS = 10_000
"""Number of rows that are written together."""


class KafkaTopics:
    def __init__(self, spark: SparkSession, log: str) -> None:
        self._spark = checked(spark)
        self._log = log
        self._options = options_of(log)
        with self._opened() as opened:
            self.id: str = opened.id

    @contextmanager
    def _opened(self) -> Iterator[KafkaLog]:
        with closing(open_log(self._log)) as opened:
            yield cast("KafkaLog", opened)

    def extents(self, topics: Iterable[str]) -> Mapping[str, Mapping[int, Extent]]:
        with self._opened() as log:
            known, found = log.topics(), {}
            for name in topics:
                if name not in known:
                    raise LogError(
                        f'there is no topic "{name}" in "{shown_log(self._log)}"; the topics are {", ".join(known)}'
                    )
                parts = [TopicPartition(name, number) for number in range(known[name].partitions)]
                found[name] = {p.partition: Extent(known[name].id, log.start(p), log.stable_end(p)) for p in parts}
            return found

    def portion(self, source: TopicPartition, extent: Extent, start: int, size: int) -> int:
        return min(extent.end, start + max(1, size // BYTES))

    def read(
        self,
        topic: str,
        spans: Mapping[int, Span],
        times: TimestampRange = EVERYTHING,
        types: Types = AS_BYTES,
        *,
        whole: bool = False,
    ) -> DataFrame:
        reader = self._spark.read.format("kafka").options(**self._options)
        ends = ({str(number): span[end] for number, span in spans.items()} for end in (0, 1))
        starting, ending = (json.dumps({topic: offsets}) for offsets in ends)
        if not spans:
            return types.shown(
                types.decoded(reader.option("subscribe", topic).load().where(F.lit(False)).select(*COLUMNS))
            )
        reader = reader.options(startingOffsets=starting, endingOffsets=ending, includeHeaders=str(whole).lower())
        records = reader.option("assign", json.dumps({topic: list(spans)})).load()
        millis = F.unix_millis("timestamp")
        if times.first > LEAST:
            records = records.where(millis >= times.first)
        if times.last < MOST:
            records = records.where(millis <= times.last)
        records = records.drop("timestampType") if whole else records.select(*COLUMNS)
        return types.shown(types.decoded(records))

    def stream(self, topic: str, types: Types) -> DataFrame:
        reader = self._spark.readStream.format("kafka").options(**self._options)
        records = reader.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true").load()
        return types.shown(types.decoded(records))

    def offsets(self, topic: str, text: str) -> dict[int, int]:
        return {int(name): end for name, end in json.loads(text).get(topic, {}).items()}

    def appended(self, name: str) -> int:
        with self._opened() as log, closing(log.appender(name)) as appender:
            return appender.number()

    def append(self, topic: str, rows: DataFrame, name: str, number: int) -> None:
        """Run by the driver: a table has few rows compared with the records that it is computed from."""
        with self._opened() as log, closing(log.appender(name)) as appender:
            appender.append(_portions(topic, log.topics()[topic].partitions, rows.toLocalIterator()), number)


def _portions(topic: str, partitions: int, rows: Iterator[Row]) -> Iterator[tuple[TopicPartition, Columns]]:
    """Yield the rows as records with the current time, in the partitions that the engine would choose."""
    while portion := list(islice(rows, ROWS)):
        keys: list[bytes | None] = [row.key.encode() for row in portion]
        values = [None if row.value is None else row.value.encode() for row in portion]
        targets = partitions_of(keys, partitions, 0)
        for number in sorted(set(targets)):
            here = [place for place, target in enumerate(targets) if target == number]
            now = [wall_clock()] * len(here)
            chosen = Columns([keys[place] for place in here], [values[place] for place in here], now)
            yield TopicPartition(topic, number), chosen
