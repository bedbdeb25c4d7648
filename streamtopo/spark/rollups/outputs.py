"""The output of a rollup: rows as files of its table, then a commit of the table, then those that its sink lacks."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import Rollup
from streamtopo.spark.delta.columns import columns_of, shown_columns
from streamtopo.spark.delta.files import check_shared, crowded, touching, write_files
from streamtopo.spark.delta.versions import Change, DataFile, Version
from streamtopo.spark.rollups.buckets import BUCKET, among, number_shown
from streamtopo.spark.rollups.earlier import earlier_rows, earlier_state, is_earlier, remove_earlier
from streamtopo.spark.rollups.reading import frame_of
from streamtopo.spark.rollups.states import Interval, State
from streamtopo.spark.rollups.tables import Table
from streamtopo.spark.sinks.delivery import Delivery, Sink

INCOMPLETE = "_incomplete"
"""A column that tables have once a span may lack records: true in the rows of such spans, null in others."""
_NEW = "_streamtopo_new"


class Written(NamedTuple):
    """What a run wrote."""

    change: Change
    rows: int
    """The number of computed rows."""


class Output:
    def __init__(self, spark: SparkSession, rollup: Rollup, out: str, sink: Sink | None) -> None:
        self._spark = spark
        self._rollup = rollup
        self._sink = sink
        self.table = Table(Path(out).absolute() / rollup.name)
        self._shared = False
        """Whether the driver has found files that executors wrote."""

    def size(self, state: State) -> int:
        return 0 if state.version is None else sum(file.size for file in state.version.files)

    def take_over(self) -> None:
        """Make a Delta table of a table that an earlier version has made."""
        directory = self.table.directory
        if not is_earlier(directory):
            return
        if self.table.state() is None and (state := earlier_state(directory)) is not None:
            run, rows = self.table.begin(state), earlier_rows(self._spark, directory)
            written = self.written(state, run, rows, state.firsts)
            self.table.commit(replace(state, commit=state.commit + 1), run, written.change)
        remove_earlier(directory)

    def check_definition(self, state: State, definition: Mapping[str, object]) -> None:
        for name, now in definition.items():
            if now != state.definition.get(name):
                raise StreamtopoError(
                    f'"{self.table.directory}" was computed with {name} = {state.definition.get(name)!r}, and now '
                    f"it is {now!r}; give the rollup another name, or remove the directory to compute it again"
                )

    def check_columns(self, result: DataFrame, state: State) -> None:
        """Check the columns of the result of the rollup's function."""
        rollup = self._rollup
        names = [rollup.bucket, *rollup.keys, *rollup.merge]
        lacking = [name for name in names if name not in result.columns]
        more = set(result.columns) - set(names) if rollup.merge else ()
        if lacking or more:
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns the columns {", ".join(result.columns)}; it needs '
                f"{', '.join(names)}{', and with merge no others' if rollup.merge else ''}"
            )
        columns = columns_of(result)
        if state.version is not None and columns != _own(state.version):
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns {shown_columns(columns)}, and its table has '
                f"{shown_columns(_own(state.version))}; give the rollup another name, or remove "
                f'"{self.table.directory}" to compute it again'
            )

    def there(self, version: Version, buckets: Collection[int]) -> DataFrame:
        """The rows that a version of the table has in these buckets."""
        files = touching(version.files, self._rollup, buckets)
        return self._numbered(version, files).where(among(BUCKET, buckets)).drop(BUCKET, INCOMPLETE)

    def _numbered(self, version: Version, files: list[DataFile]) -> DataFrame:
        rows = frame_of(self._spark, self.table.directory, version, files)
        return rows.withColumn(BUCKET, number_shown(F.col(self._rollup.bucket), self._rollup.every))

    # -- writing

    def written(
        self, state: State, run: str, result: DataFrame, buckets: Collection[int], marked: Collection[int] = ()
    ) -> Written:
        """Files of these rows, in place of the rows of these buckets; buckets to be marked as incomplete are, too.

        A file that has rows of these buckets is replaced: its rows of other buckets are written again. Small files are
        replaced, too, when there are many of them.
        """
        if not self._shared:
            check_shared(self._spark, self.table.directory)
            self._shared = True
        rollup, version = self._rollup, state.version
        number = number_shown(F.col(rollup.bucket), rollup.every)
        rows = result.withColumn(BUCKET, number).withColumn(_NEW, F.lit(True))
        removed: list[DataFile] = []
        if version is not None:
            removed = touching(version.files, rollup, {*buckets, *marked})
            removed += [file for file in crowded(version.files) if file not in removed]
            others = self._numbered(version, removed).where(~among(BUCKET, buckets)).withColumn(_NEW, F.lit(False))
            rows = rows.unionByName(others, allowMissingColumns=True) if removed else rows
        seen = Observation()
        strange = F.col(_NEW) & ~F.coalesce(among(BUCKET, buckets), F.lit(False))
        counts = [F.count_if(_NEW).alias("rows"), F.count_if(strange).alias("strange")]
        counts.append(F.min(F.when(strange, F.col(rollup.bucket))).cast("string").alias("example"))
        rows = rows.repartitionByRange(BUCKET).observe(seen, *counts)
        if state.incomplete:
            rows = rows.withColumn(INCOMPLETE, F.when(_within(state.incomplete), True))
        rows = rows.drop(BUCKET, _NEW)
        write_files(rows, self.table.directory / run)
        found = seen.get
        if found["strange"]:
            raise StreamtopoError(
                f'rollup "{rollup.name}" returns rows for another {rollup.bucket} than its records have '
                f"({found['example']}); leave the column as it is"
            )
        return Written(Change(columns_of(rows), self.table.added(run), removed), found["rows"])

    def commit(self, state: State, run: str, change: Change) -> State:
        state = self.table.commit(state, run, change)
        self.deliver(state)
        return state

    def deliver(self, state: State) -> None:
        """Send the sink the commits that it lacks. It stores their numbers with the rows, so it gets each once."""
        if self._sink is None or state.version is None:
            return
        last = self._sink.delivered(state.id)
        if last >= state.commit:
            return
        before = self._before(state) if 0 < last == state.commit - 1 else None
        whole = frame_of(self._spark, self.table.directory, state.version, state.version.files).drop(INCOMPLETE)
        self._sink.deliver(
            Delivery(
                state.id,
                state.commit,
                json.dumps(state.offsets),
                self.there(state.version, state.changed) if before else whole,
                self.there(before, state.changed) if before else None,
                [self._rollup.every.moment(number) for number in state.changed] if before else None,
            )
        )

    def _before(self, state: State) -> Version | None:
        """The version that the last commit replaced, unless its files are gone."""
        version = self.table.version(state.before) if state.before is not None else None
        files = touching(version.files, self._rollup, state.changed) if version else []
        return version if all((self.table.directory / file.path).exists() for file in files) else None


def _own(version: Version) -> dict[str, Any]:
    """The columns of a table, without ours."""
    fields = [field for field in version.columns["fields"] if field["name"] != INCOMPLETE]
    return {**version.columns, "fields": fields}


def _within(intervals: Iterable[Interval]) -> Column:
    """Whether a bucket is in one of the intervals."""
    column = F.col(BUCKET)
    parts = [(column <= last) if first is None else column.between(first, last) for first, last in intervals]
    return reduce(Column.__or__, parts)
