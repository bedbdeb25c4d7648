"""One partition that a task reads: its records are decoded and wait, in offset order, for their round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

from streamtopo.engine.task.ahead import ANY, Ahead
from streamtopo.engine.task.marks import Mark, without_marks
from streamtopo.engine.task.progress import Place
from streamtopo.errors import FailedRecord, StepError
from streamtopo.records import Batch, Headers, TopicPartition, within
from streamtopo.topology.nodes import SourceNode
from streamtopo.windows import FOREVER

Reject = Callable[[FailedRecord], None]
"""Decides about a record that failed: raises StepError to stop, or returns to continue without the record."""


class Rows(NamedTuple):
    """Records, column by column: decoded, and raw, so that they can be decoded again when a round is repeated."""

    raw_keys: list[bytes | None]
    raw_values: list[bytes | None]
    offsets: Sequence[int]
    timestamps: list[int]
    headers: list[Headers] | None
    keys: list[Any]
    values: list[Any]
    extracted: bool = False
    """Whether the timestamps come from the source's timestamp function."""

    @property
    def size(self) -> int:
        return len(self.offsets)

    def slice(self, rows: slice) -> Rows:
        return self._each(lambda column: column[rows])

    def select(self, mask: list[bool]) -> Rows:
        return self._each(lambda column: list(compress(column, mask)))

    def _each(self, pick: Callable[[Any], Any]) -> Rows:
        columns = zip(self._fields[:-1], self[:-1], strict=True)
        picked: dict[str, Any] = {name: column and pick(column) for name, column in columns}
        return self._replace(**picked)

    def fresh(self, source: SourceNode) -> Rows:
        """The same records, decoded again: functions of the user may have changed the values in place.

        The timestamp function is called again, because it may change values too; its results are not used.
        """
        if source.raw:
            return self._replace(keys=self.raw_keys, values=self.raw_values)
        keys, values = source.key.decode_column(self.raw_keys), source.value.decode_column(self.raw_values)
        if source.timestamp is not None and self.extracted:
            source.timestamp.call_again(keys, values, self.timestamps)
        return self._replace(keys=keys, values=values)


NO_ROWS = Rows([], [], [], [], None, [], [])


def join_rows(several: list[Rows]) -> Rows:
    several = [rows for rows in several if rows.size]
    if len(several) < 2:
        return several[0] if several else NO_ROWS
    if any(rows.headers is not None for rows in several):
        several = [rows._replace(headers=rows.headers or [()] * rows.size) for rows in several]
    columns = [_end_to_end(columns) for columns in zip(*(rows[:-1] for rows in several), strict=True)]
    return Rows(*columns)._replace(extracted=several[0].extracted)


def _end_to_end(columns: tuple[Any, ...]) -> Any:
    if columns[0] is None:
        return None
    together: list[Any] = []
    for column in columns:
        together += column
    return together


class Input:
    def __init__(
        self,
        source: SourceNode,
        partition: TopicPartition,
        task: str,
        place: Place,
        left_out: Counter[str],
        ahead: Ahead = ANY,
        *,
        has_marks: bool = False,
    ) -> None:
        """Reading starts at `place`; `left_out` counts the rows that are left out, by reason.

        With `has_marks`, it is a repartition topic: some records are not the user's.
        """
        self.source = source
        self.partition = partition
        self.place = place
        self.waiting = NO_ROWS
        self.fetched = place.offset
        self.poison: StepError | None = None
        self.rejected: list[FailedRecord] = []
        """Records that could not be decoded and are left out, until a commit passes them."""
        self._task = task
        self._left_out = left_out
        self._ahead = ahead
        self._has_marks = has_marks

    def add(self, batch: Batch, reject: Reject, now: int = 0) -> int:
        """Queue the rows of the batch, except those that cannot be decoded or whose timestamps are not allowed.

        If `reject` raises, the rows before the bad one are queued, and `poison` keeps the error until they are taken.
        `now` is the time of the wall clock. Returns how many records there were.
        """
        if self.poison is not None:
            return 0
        marks: list[tuple[int, Mark]] = []
        if self._has_marks:
            batch, marks = without_marks(batch)
        latest = self._ahead.latest(now)
        rows = self._decoded(batch, reject, latest)
        if rows.timestamps and min(rows.timestamps) < 0:
            rows = self._only("negative timestamp", rows, [time >= 0 for time in rows.timestamps])
        if self._ahead.then == "skip" and max(rows.timestamps, default=-1) > latest:
            rows = self._only("too far ahead", rows, [time <= latest for time in rows.timestamps])
        self.waiting = join_rows([self.waiting, rows])
        if self.poison is None:
            self.fetched = batch.next_offset
        if self.place.origins is not None:
            self.place.origins.note([mark for mark in marks if mark[0] < self.fetched])
        return len(batch.offsets)

    def pass_left_out(self) -> None:
        """If no rows wait, all records that were read are processed or left out."""
        if not self.waiting.size and self.poison is None:
            self.place.move(self.fetched)

    def take(self, count: int, bound: int = FOREVER) -> InputRows:
        """The next rows. Clocks do not follow rows past the bound."""
        rows, self.waiting = self.waiting, NO_ROWS
        if count < rows.size:
            rows, self.waiting = rows.slice(slice(0, count)), rows.slice(slice(count, None))
        following = self.waiting.offsets[0] if self.waiting.size else self.fetched
        time, ahead = max(rows.timestamps), []
        if time > bound:
            time = max(within(rows.timestamps, bound))
            ahead = [place for place, one in enumerate(rows.timestamps) if one > bound]
        return InputRows(self, rows, time, following, ahead)

    def failed(self, node: str, cause: BaseException, row: Rows) -> FailedRecord:
        (offset,), (key,), (value,), (timestamp,) = row.offsets, row.raw_keys, row.raw_values, row.timestamps
        headers = row.headers[0] if row.headers else ()
        return FailedRecord(node, cause, self._task, *self.partition, offset, key, value, headers, timestamp)

    def _only(self, reason: str, rows: Rows, mask: list[bool]) -> Rows:
        self._left_out[reason] += mask.count(False)
        self.place.left_out += [(offset, reason) for offset, kept in zip(rows.offsets, mask, strict=True) if not kept]
        return rows.select(mask)

    def _decoded(self, batch: Batch, reject: Reject, latest: int) -> Rows:
        keys, values, timestamps, headers = batch.columns
        raw = Rows(keys, values, batch.offsets, timestamps, headers, [], [])
        try:
            return self._timed(raw.fresh(self.source), self._partition_time(latest), latest)
        except Exception:
            return self._decoded_one_by_one(raw, reject, latest)

    def _decoded_one_by_one(self, raw: Rows, reject: Reject, latest: int) -> Rows:
        rows = []
        time = self._partition_time(latest)
        for at, offset in enumerate(raw.offsets):
            row = raw.slice(slice(at, at + 1))
            try:
                rows.append(self._timed(row.fresh(self.source), time, latest))
                time = max(time, *within(rows[-1].timestamps, latest))
            except Exception as error:
                try:
                    place = str(self.source.code_place or "")
                    self._leave_out(replace(self.failed(self.source.name, error, row), code_place=place), reject)
                except StepError as fatal:
                    self.poison, self.fetched = fatal, offset
                    break
        return join_rows(rows)

    def _leave_out(self, failed: FailedRecord, reject: Reject) -> None:
        """A method of its own: frames of the traceback must not refer to `failed`, or all their rows stay in memory."""
        reject(failed)
        self.rejected.append(failed)

    def _partition_time(self, latest: int) -> int:
        """The largest time of all records so far, if the timestamp function needs it."""
        return -1 if self.source.timestamp is None else max([self.place.time, *within(self.waiting.timestamps, latest)])

    def _timed(self, rows: Rows, partition_time: int, latest: int) -> Rows:
        if self.source.timestamp is not None:
            times = self.source.timestamp.column(rows.keys, rows.values, rows.timestamps, partition_time, latest)
            rows = rows._replace(timestamps=times, extracted=True)
        if self._ahead.then == "fail":
            self._ahead.check(rows.timestamps, latest)
        return rows


class InputRows(NamedTuple):
    """What a round takes from one input, and the offset to continue at."""

    input: Input
    rows: Rows
    time: int
    """The largest timestamp of the rows that clocks follow, or -1."""
    next_offset: int
    ahead: Sequence[int] = ()
    """The indexes of the rows that clocks do not follow."""

    def failed(self, node: str, cause: BaseException) -> FailedRecord:
        """The only row of this part failed in a node."""
        return self.input.failed(node, cause, self.rows)
