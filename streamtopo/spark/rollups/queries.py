"""A rollup as a query of Structured Streaming: Spark keeps state and checkpoints, the table gets the emitted rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from streamtopo.errors import StreamtopoError
from streamtopo.records import TopicPartition
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.rollups.buckets import BUCKET, number_of, number_shown, shown
from streamtopo.spark.rollups.incoming import Incoming, Ranges
from streamtopo.spark.rollups.outputs import Output
from streamtopo.spark.rollups.rollups import Done
from streamtopo.spark.rollups.states import State
from streamtopo.spark.sinks.sinks import sink_for
from streamtopo.spark.topics.opening import topics_of
from streamtopo.spark.topics.typed import CORRUPT, Types

MODES = ("append", "update", "complete")


class Query:
    """`update` writes rows whenever they change, `complete` all rows each time, `append` the rows of a span once, when
    the watermark has passed its end. The watermark follows the newest span by the topology's grace.
    """

    def __init__(
        self, spark: SparkSession, rollup: Rollup, log: str, out: str, mode: str, *, into: str | None = None
    ) -> None:
        if len(rollup.inputs) > 1:
            raise StreamtopoError(f'rollup "{rollup.name}" reads several topics; run it without --mode')
        # Without it Spark runs one batch of a foreign source, and no second one to finish the spans that have ended.
        spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
        self.name = rollup.name
        self._rollup = rollup
        self._mode = mode
        self._topics = topics_of(spark, log)
        self._incoming = Incoming(rollup, self._topics)
        self.output = Output(spark, rollup, out, sink_for(spark, rollup, log, into) if into else None)
        self._rows: dict[int, tuple[int, int]] = {}
        """How many rows and buckets each batch wrote."""
        self._reported = -1

    def start(self, trigger: str) -> StreamingQuery:
        self.output.take_over()
        state, checkpoint = self._state(), self.output.table.directory / "_checkpoint"
        if state.batch >= 0 and not checkpoint.exists():
            raise StreamtopoError(
                f'"{checkpoint}" is gone, and with it what the query has read; remove "{checkpoint.parent}" to compute '
                "it again"
            )
        self.output.deliver(state)
        result = self._rollup.function(self._records(), *self._incoming.tables())
        self.output.check_columns(self._shown(result), state)
        writer = result.writeStream.outputMode(self._mode).foreachBatch(self._write).queryName(self._rollup.name)
        writer = writer.option("checkpointLocation", str(checkpoint))
        when = {"processingTime": "1 second"} if trigger == "continuous" else {"availableNow": True}
        query: StreamingQuery = writer.trigger(**when).start()
        return query

    def _state(self) -> State:
        extents = self._incoming.extents()
        ids = {topic: partitions[0].topic for topic, partitions in extents.items()}
        definition = self._rollup.definition() | {"mode": self._mode}
        state = self.output.table.state() or State(definition, self._topics.id, ids)
        self.output.check_definition(state, definition)
        return state

    def _records(self) -> DataFrame:
        """The frame with the span as a time, also for days: watermarks need times."""
        one, every = self._rollup.inputs[0], self._rollup.every
        records = self._incoming.numbered(one, self._topics.stream(one.topic, Types(*one.types)))
        counts = [F.count_if(F.col(BUCKET).isNull() | F.col(CORRUPT).isNotNull()).alias("corrupt")]
        records = records.observe("records", F.count("*").alias("n"), *counts)
        records = records.where(F.col(BUCKET).isNotNull() & F.col(CORRUPT).isNull()).drop(CORRUPT)
        start = F.timestamp_millis(F.col(BUCKET) * every.ms + every.origin)
        watermark = every.ms + self._rollup.grace
        return records.withColumn(every.unit, start).drop(BUCKET).withWatermark(every.unit, f"{watermark} milliseconds")

    def _shown(self, result: DataFrame) -> DataFrame:
        """The frame with a date for a span of days."""
        unit, every = self._rollup.bucket, self._rollup.every
        if unit not in result.columns:
            return result
        return result.withColumn(unit, shown(number_of(F.unix_millis(unit), every), every))

    def _write(self, emitted: DataFrame, batch: int) -> None:
        """Write a batch once: a batch that Spark repeats is already in the table."""
        state = self._state()
        if state.batch >= batch:
            emitted.write.format("noop").mode("append").save()  # computing the rows is what commits Spark's state
            return
        run = self.output.table.begin(state)
        result = self._shown(emitted)
        emitted = result.persist()
        try:
            number = number_shown(F.col(self._rollup.bucket), self._rollup.every)
            numbers = [row[0] for row in result.select(number).distinct().collect()]
            if not numbers:
                return
            self.output.check_columns(result, state)
            if self._mode != "complete" and state.version is not None:
                result = self._with_others(result, self.output.there(state.version, numbers))
            written = self.output.written(state, run, result, numbers)
            self._rows[batch] = written.rows, len(numbers)
        finally:
            emitted.unpersist()
        state = replace(state, commit=state.commit + 1, batch=batch, changed=numbers)
        self.output.commit(state, run, written.change)

    def _with_others(self, emitted: DataFrame, there: DataFrame) -> DataFrame:
        """The emitted rows, and the other rows of their spans."""
        keys = (self._rollup.bucket, *self._rollup.keys)
        same = reduce(Column.__and__, (there[key].eqNullSafe(emitted[key]) for key in keys))
        return emitted.unionByName(there.join(emitted, same, "left_anti"))

    # -- reporting

    def news(self, query: StreamingQuery) -> Iterator[Done]:
        for progress in query.recentProgress:
            if progress["batchId"] > self._reported and (progress["numInputRows"] or progress["batchId"] in self._rows):
                self._reported = progress["batchId"]
                yield self._done(progress)
        if (error := query.exception()) is not None:
            raise error

    def _done(self, progress: Any) -> Done:
        rows, buckets = self._rows.pop(progress["batchId"], (0, 0))
        seen = progress["observedMetrics"].get("records")
        source = progress["sources"][0]
        done = Done(
            self._rollup.name, self._ranges(source["startOffset"], source["endOffset"]), progress["numInputRows"]
        )
        done.rows, done.buckets, done.corrupt = rows, buckets, seen["corrupt"] if seen else 0
        state = self.output.table.state()
        done.bytes = 0 if state is None else self.output.size(state)
        done.seconds = progress["durationMs"]["triggerExecution"] / 1000
        return done

    def _ranges(self, start: str, end: str) -> Ranges:
        """Parse the offsets of a stream; PySpark writes "None" for its beginning, or "null" since 4.1."""
        topic = self._rollup.inputs[0].topic
        starts, ends = ({} if text in ("None", "null") else self._topics.offsets(topic, text) for text in (start, end))
        return {
            TopicPartition(topic, number): (starts.get(number, 0), stop)
            for number, stop in ends.items()
            if stop > starts.get(number, 0)
        }
