"""The input of a run of a rollup: the new records, the spans of time that they touch, and frames of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import VariantType

from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded.arrow_log import LEAST, TimestampRange
from streamtopo.records import TopicPartition
from streamtopo.spark.declarations import Input, Rollup
from streamtopo.spark.rollups.buckets import BUCKET, among, number_of, shown
from streamtopo.spark.rollups.states import Firsts, Interval, State
from streamtopo.spark.topics.topics import Extent, Span, Topics
from streamtopo.spark.topics.typed import CORRUPT, Types, newest

Ranges = Mapping[TopicPartition, Span]
Extents = Mapping[str, Mapping[int, Extent]]
COMMIT_BYTES = 1 << 30
"""How much of the log one commit reads, if several commits are allowed."""
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""


@dataclass
class Touched:
    """The buckets that new records touch; `corrupt` is the number of new records that are left out."""

    records: int = 0
    corrupt: int = 0
    buckets: dict[int, dict[str, int]] = field(default_factory=dict)
    """By the number of the bucket: for each partition, the first offset of the new records in it."""
    counts: dict[int, int] = field(default_factory=dict)
    """By the number of the bucket, how many new records it has."""

    def without(self, buckets: Iterable[int]) -> Touched:
        left = {number: firsts for number, firsts in self.buckets.items() if number not in set(buckets)}
        return replace(self, buckets=left)


class Incoming:
    def __init__(self, rollup: Rollup, topics: Topics) -> None:
        self._rollup = rollup
        self._topics = topics
        self.since: int | None = None
        """The start of a bucket, in milliseconds; older records are left out."""

    def extents(self) -> Extents:
        return self._topics.extents(one.topic for one in self._rollup.inputs)

    def new(self, state: State, extents: Extents, *, several: bool) -> Ranges:
        """The offsets that no commit has read yet: all of them, or about a gigabyte."""
        size = COMMIT_BYTES // sum(map(len, extents.values()))
        found = {}
        for source, extent in _parts(extents):
            start = max(_next(state, source), extent.start)
            if start > extent.end:
                raise StreamtopoError(
                    f'rollup "{self._rollup.name}" has read {source} up to offset {start}, and it ends at '
                    f"{extent.end}: the log is an older copy; remove the rollup's directory to compute it again"
                )
            if start < extent.end:
                end = self._topics.portion(source, extent, start, size) if several else extent.end
                found[source] = (start, end)
        return found

    def lost(self, state: State, ranges: Ranges, touched: Touched) -> Ranges:
        """The offsets right before these that were deleted before any run has read them, unless all were too old."""
        found = {}
        for source, (start, _) in ranges.items():
            name, first = str(source), _next(state, source)
            is_old = self.since is not None and name not in state.offsets and _first(touched.buckets, name) != start
            if first < start and not is_old:
                found[source] = first, start
        return found

    def touched(self, ranges: Ranges) -> Touched:
        found = Touched()
        for one in self._rollup.inputs:
            if spans := _spans(ranges, one.topic):
                self._touch(one, spans, found)
        return found

    def _touch(self, one: Input, spans: Mapping[int, Span], found: Touched) -> None:
        bad = F.col(BUCKET).isNull() | F.col(CORRUPT).isNotNull()
        grouped = self._records(one, spans, self._times(one)).groupBy(BUCKET, "partition")
        rows = grouped.agg(F.count("*").alias("n"), F.min("offset").alias("first"), F.count_if(bad).alias("bad"))
        for row in rows.collect():
            found.records += row.n
            found.corrupt += row.bad
            if row[BUCKET] is not None:
                found.counts[row[BUCKET]] = found.counts.get(row[BUCKET], 0) + row.n - row.bad
                part = str(TopicPartition(one.topic, row.partition))
                found.buckets.setdefault(row[BUCKET], {})[part] = row["first"]

    def closed(self, state: State, touched: Touched, extents: Extents) -> dict[int, str]:
        """The touched buckets that cannot be computed again: records of them were deleted from this partition."""
        if self._rollup.merge:
            return {}
        starts = {str(source): extent.start for source, extent in _parts(extents)}
        found = {}
        for number in touched.buckets:
            for source, first in state.firsts.get(number, {}).items():
                if first < starts[source]:
                    found[number] = source
        return found

    def incomplete(self, state: State, touched: Touched, lost: Ranges) -> list[Interval]:
        """The buckets that may lack lost records: for each partition, from that of the last record read before to
        that of the first one read now. Records are nearly in the order of time.
        """
        found = []
        known = {**state.firsts, **touched.buckets}
        for source in map(str, lost):
            before, now = (_by_offset(firsts, source) for firsts in (state.firsts, touched.buckets))
            ends = [*before[-1:], *now[:1]] or [*known][:1]
            if ends:
                found.append((min(ends) if before else None, max(ends)))
        return found

    # -- the arguments of the rollup's function

    def frames(self, state: State, ranges: Ranges, touched: Touched) -> list[DataFrame]:
        """New records if results are merged, else all records of the buckets that they touch; then the tables."""
        spans = ranges if self._rollup.merge else self._touched_spans(state, touched)
        inputs = [self._frame(one, _spans(spans, one.topic), touched.buckets) for one in self._rollup.inputs]
        return [*inputs, *self.tables()]

    def late(self, ranges: Ranges, buckets: Collection[int]) -> DataFrame:
        """The new records of these buckets, with keys and values as bytes."""
        found = []
        for one in self._rollup.inputs:
            raw = self._topics.read(one.topic, spans := _spans(ranges, one.topic))
            kept = self._records(one, spans, self._times(one)).where(among(BUCKET, buckets) & F.col(CORRUPT).isNull())
            start = shown(F.col(BUCKET), self._rollup.every).alias(self._rollup.bucket)
            chosen = kept.select("partition", "offset", start, F.lit(one.topic).alias("topic"), "timestamp")
            found.append(chosen.join(raw.select("partition", "offset", "key", "value"), ["partition", "offset"]))
        names = [self._rollup.bucket, "topic", "partition", "offset", "timestamp", "key", "value"]
        return reduce(DataFrame.unionByName, found).select(*names)

    def tables(self) -> list[DataFrame]:
        return [self._table(one) for one in self._rollup.tables]

    def _frame(self, one: Input, spans: Mapping[int, Span], buckets: Firsts) -> DataFrame:
        every, times = self._rollup.every, self._times(one)
        if one.timestamp is None and buckets:
            times = TimestampRange(max(times.first, every.start(min(buckets))), every.start(max(buckets) + 1) - 1)
        records = self._records(one, spans, times, whole=True)
        records = records.where(among(BUCKET, buckets) & F.col(CORRUPT).isNull()).drop(CORRUPT)
        return records.withColumn(self._rollup.bucket, shown(F.col(BUCKET), every)).drop(BUCKET)

    def _table(self, one: Input) -> DataFrame:
        extents = self._topics.extents([one.topic])[one.topic]
        spans = {number: (extent.start, extent.end) for number, extent in extents.items()}
        records = self._topics.read(one.topic, spans, types=Types(*one.types))
        return newest(records.where(F.col(CORRUPT).isNull()))

    def _touched_spans(self, state: State, touched: Touched) -> Ranges:
        """For each partition with records of a touched bucket, the offsets from the first of them."""
        starts: dict[str, int] = {}
        for number, firsts in touched.buckets.items():
            for source, first in {**firsts, **state.firsts.get(number, {})}.items():
                starts[source] = min(first, starts.get(source, first))
        return {_source(name): (start, state.offsets[name][1]) for name, start in starts.items()}

    # -- records

    def _times(self, one: Input) -> TimestampRange:
        return TimestampRange(LEAST if self.since is None or one.timestamp else self.since)

    def _records(
        self, one: Input, spans: Mapping[int, Span], times: TimestampRange, *, whole: bool = False
    ) -> DataFrame:
        return self.numbered(one, self._topics.read(one.topic, spans, times, Types(*one.types), whole=whole))

    def numbered(self, one: Input, records: DataFrame) -> DataFrame:
        """The records with the numbers of their buckets: null if a table cannot show the year of the time."""
        if one.timestamp is not None:
            records = records.withColumn("timestamp", F.timestamp_millis(_own_time(records, one.timestamp)))
        every, millis = self._rollup.every, F.unix_millis("timestamp")
        inside = F.col("timestamp").isNotNull() & millis.between(_FIRST, _LAST)
        records = records.withColumn(BUCKET, F.when(inside, number_of(millis, every)))
        if one.timestamp is not None and self.since is not None:
            records = records.where(F.coalesce(millis >= self.since, F.lit(True)))
        return records


def _own_time(records: DataFrame, name: str) -> Column:
    """The time in milliseconds; null if it is missing or negative, because the engine skips such records."""
    if isinstance(records.schema["value"].dataType, VariantType):
        time = F.try_variant_get("value", f"$.{name}", "long")
    else:
        time = F.col(f"value.`{name}`").try_cast("long")
    return F.when(time.between(0, _LAST), time)


def _parts(extents: Extents) -> Iterator[tuple[TopicPartition, Extent]]:
    for topic, partitions in extents.items():
        for number, extent in partitions.items():
            yield TopicPartition(topic, number), extent


def _spans(ranges: Ranges, topic: str) -> dict[int, Span]:
    return {source.partition: span for source, span in ranges.items() if source.topic == topic}


def _next(state: State, source: TopicPartition) -> int:
    """The first offset of a partition that no commit has read."""
    return state.offsets.get(str(source), (0, 0))[1]


def _first(firsts: Firsts, source: str) -> int | None:
    return min((first[source] for first in firsts.values() if source in first), default=None)


def _by_offset(firsts: Firsts, source: str) -> list[int]:
    """The buckets that a partition has records of, in the order of their first offsets."""
    offsets = {number: first[source] for number, first in firsts.items() if source in first}
    return sorted(offsets, key=offsets.__getitem__)


def _source(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("/")
    return TopicPartition(topic, int(number))
