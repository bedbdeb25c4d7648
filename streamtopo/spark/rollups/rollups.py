"""Rollups: tables that each run brings up to date from the records that are new, exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.delta.files import write_files
from streamtopo.spark.delta.versions import Change
from streamtopo.spark.rollups.incoming import Extents, Incoming, Ranges, Touched
from streamtopo.spark.rollups.merging import check_merges, merged
from streamtopo.spark.rollups.outputs import Output, Written
from streamtopo.spark.rollups.states import State, joined, within
from streamtopo.spark.rollups.tables import LATE
from streamtopo.spark.sinks.sinks import sink_for
from streamtopo.spark.topics.opening import topics_of


@dataclass
class Done:
    """What a run did: `records` is the number of new records, `corrupt` the number of those that were left out."""

    rollup: str
    ranges: Ranges
    records: int = 0
    buckets: int = 0
    rows: int = 0
    corrupt: int = 0
    late: int = 0
    """New records whose span could not be computed again; they are kept apart."""
    incomplete: Ranges = field(default_factory=dict)
    """The offsets that were deleted before they were read: spans of their time are marked."""
    bytes: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.rollup


class Run:
    """Brings the table of one rollup up to date, in the process that holds the table's lock."""

    def __init__(
        self,
        spark: SparkSession,
        rollup: Rollup,
        log: str,
        out: str,
        since: int | None = None,
        *,
        into: str | None = None,
        late: str = "keep",
    ) -> None:
        self.name = rollup.name
        self._spark = spark
        self._rollup = rollup
        self._topics = topics_of(spark, log)
        self._incoming = Incoming(rollup, self._topics)
        self._output = Output(spark, rollup, out, sink_for(spark, rollup, log, into) if into else None)
        self._late = late
        self._since = None if since is None else rollup.every.start(rollup.every.bucket(since))

    def commits(self, *, several: bool = False) -> Iterator[Done]:
        """Process the topics up to their current ends, in one commit or in several of about a gigabyte."""
        with self._output.table.locked():
            self._output.take_over()
            extents = self._incoming.extents()
            while True:
                state = self._state(extents)
                ranges = self._incoming.new(state, extents, several=several)
                self._output.deliver(state)  # what a killed run did not deliver
                yield self._commit(state, ranges, extents) if ranges else Done(self._rollup.name, {})
                if not several or all(end == extents[topic][n].end for (topic, n), (_, end) in ranges.items()):
                    return

    def _state(self, extents: Extents) -> State:
        state = self._output.table.state()
        ids = {topic: partitions[0].topic for topic, partitions in extents.items()}
        if state is None:
            self._incoming.since = self._since
            return State(self._rollup.definition() | {"since": self._since}, self._topics.id, ids)
        self._incoming.since = state.definition.get("since") if self._since is None else self._since
        self._output.check_definition(state, self._rollup.definition() | {"since": self._incoming.since})
        for topic, number in ids.items():
            if (state.log, state.topics[topic]) != (self._topics.id, number):
                raise StreamtopoError(
                    f'"{self._output.table.directory}" was computed from another topic of the name "{topic}"; give '
                    "another --out, or remove the directory to compute it again"
                )
        return state

    # -- one commit

    def _commit(self, state: State, ranges: Ranges, extents: Extents) -> Done:
        began, run = time.monotonic(), self._output.table.begin(state)
        touched = self._incoming.touched(ranges)
        lost = self._incoming.lost(state, ranges, touched)
        closed = self._incoming.closed(state, touched, extents)
        done = Done(self._rollup.name, ranges, touched.records, corrupt=touched.corrupt, incomplete=lost)
        done.late = sum(touched.counts[number] for number in closed)
        state = replace(state, incomplete=joined([*state.incomplete, *self._incoming.incomplete(state, touched, lost)]))
        state = self._with_late(state, run, ranges, closed) if closed else state
        touched = touched.without(closed)
        read = {str(source): span for source, span in ranges.items()}
        whole = {source: (state.offsets.get(source, span)[0], span[1]) for source, span in read.items()}
        state = replace(state, commit=state.commit + 1, offsets=state.offsets | whole, latest=read)
        written = self._computed(state, run, ranges, touched, bool(lost))
        firsts = {number: {**first, **state.firsts.get(number, {})} for number, first in touched.buckets.items()}
        state = replace(state, changed=[*touched.buckets], firsts={**state.firsts, **firsts})
        state = self._output.commit(state, run, written.change)
        done.buckets, done.rows, done.bytes = len(touched.buckets), written.rows, self._output.size(state)
        done.seconds = time.monotonic() - began
        return done

    def _computed(self, state: State, run: str, ranges: Ranges, touched: Touched, lost: bool) -> Written:
        """The rows of the touched buckets, written, and the rows of others that are now marked as incomplete."""
        rollup, output = self._rollup, self._output
        marked = [number for number in state.firsts if lost and within(state.incomplete, number)]
        if state.version is not None and not touched.buckets and not marked:
            return Written(Change(state.version.columns, [], []), 0)
        frames = self._incoming.frames(state, ranges, touched)
        result = rollup.function(*frames)
        output.check_columns(result, state)
        if rollup.merge:
            if not state.firsts:
                check_merges(rollup, *frames)
            there = output.there(state.version, touched.buckets) if state.version else None
            result = merged(rollup, result if there is None else result.unionByName(there))
        return output.written(state, run, result, touched.buckets, marked)

    def _with_late(self, state: State, run: str, ranges: Ranges, closed: Mapping[int, str]) -> State:
        """Keep the records apart whose spans cannot be computed again."""
        if self._late == "refuse":
            number, source = min(closed.items())
            raise StreamtopoError(
                f"new records belong to {self._rollup.bucket} {self._rollup.every.shown(number)}, and older ones of it "
                f'were deleted from {source}, so that rollup "{self._rollup.name}" cannot compute it again; keep such '
                "records apart (--late keep), or keep records longer (retention.ms)"
            )
        write_files(self._incoming.late(ranges, closed), self._output.table.directory / LATE / run)
        return replace(state, late=[*state.late, run])
