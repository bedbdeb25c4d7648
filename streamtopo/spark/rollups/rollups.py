"""Rollups: tables that each run brings up to date from the records that are new, exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.rollups.incoming import Extents, Incoming, Ranges, Touched
from streamtopo.spark.rollups.merging import check_merges, merged
from streamtopo.spark.rollups.outputs import Output
from streamtopo.spark.rollups.tables import Manifest
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
    ) -> None:
        self.name = rollup.name
        self._spark = spark
        self._rollup = rollup
        self._topics = topics_of(spark, log)
        self._incoming = Incoming(rollup, self._topics)
        self._output = Output(spark, rollup, out, sink_for(spark, rollup, log, into) if into else None)
        self._since = None if since is None else rollup.every.start(rollup.every.bucket(since))

    def commits(self, *, several: bool = False) -> Iterator[Done]:
        """Process the topics up to their current ends, in one commit or in several of about a gigabyte."""
        with self._output.table.locked():
            extents = self._incoming.extents()
            while True:
                manifest = self._manifest(extents)
                ranges = self._incoming.new(manifest, extents, several=several)
                self._output.deliver(manifest)  # what a killed run did not deliver
                if ranges:
                    self._output.table.sweep(
                        manifest
                    )  # not right after a commit: readers may still use the files that it replaced
                yield self._commit(manifest, ranges) if ranges else Done(self._rollup.name, {})
                if not several or all(end == extents[topic][n].end for (topic, n), (_, end) in ranges.items()):
                    return

    def _manifest(self, extents: Extents) -> Manifest:
        manifest = self._output.table.manifest()
        ids = {topic: partitions[0].topic for topic, partitions in extents.items()}
        if manifest is None:
            self._incoming.since = self._since
            return Manifest(self._rollup.definition() | {"since": self._since}, self._topics.id, ids)
        self._incoming.since = manifest.definition.get("since") if self._since is None else self._since
        self._output.check_definition(manifest, self._rollup.definition() | {"since": self._incoming.since})
        for topic, number in ids.items():
            if (manifest.log, manifest.topics[topic]) != (self._topics.id, number):
                raise StreamtopoError(
                    f'"{self._output.table.directory}" was computed from another topic of the name "{topic}"; give '
                    "another --out, or remove the directory to compute it again"
                )
        return manifest

    # -- one commit

    def _commit(self, manifest: Manifest, ranges: Ranges) -> Done:
        began = time.monotonic()
        touched = self._incoming.touched(ranges)
        offsets = {str(source): span for source, span in ranges.items()}
        whole = {source: (manifest.offsets.get(source, span)[0], span[1]) for source, span in offsets.items()}
        manifest = replace(manifest, commit=manifest.commit + 1, offsets=manifest.offsets | whole, latest=offsets)
        manifest = replace(manifest, changed=[], replaced=[])
        done = Done(self._rollup.name, ranges, touched.records, len(touched.buckets), corrupt=touched.corrupt)
        if touched.buckets:
            manifest, done.rows = self._computed(manifest, ranges, touched)
        self._output.commit(manifest)
        done.bytes, done.seconds = self._output.table.size(manifest), time.monotonic() - began
        return done

    def _computed(self, manifest: Manifest, ranges: Ranges, touched: Touched) -> tuple[Manifest, int]:
        """The manifest with the files of the computed rows, and the number of rows."""
        rollup = self._rollup
        frames = self._incoming.frames(manifest, ranges, touched)
        result = rollup.function(*frames)
        columns = self._output.columns(result, manifest)
        if rollup.merge:
            if not manifest.columns:
                check_merges(rollup, *frames)
            there = self._output.there(manifest, touched.buckets, columns)
            result = merged(rollup, result if there is None else result.unionByName(there))
        return self._output.written(manifest, result, touched.buckets)
