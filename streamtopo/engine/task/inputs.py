"""One partition that a task reads: its records are decoded and wait, in offset order, for their round."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any, NamedTuple

from streamtopo.engine.failures.left_out import LeftOut, Reject, TryAgain
from streamtopo.engine.task.ahead import ANY, Ahead
from streamtopo.engine.task.marks import Mark, without_marks
from streamtopo.engine.task.progress import Place
from streamtopo.errors import FailedRecord, Stage, StepError, faults
from streamtopo.records import Batch, Columns, Headers, TopicPartition, within, without
from streamtopo.topology.nodes import SourceNode
from streamtopo.windows import FOREVER

_CAREFUL = 1000
"""For how many batches after one with a bad record it is expected that there are more."""


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

    @property
    def decoded(self) -> bool:
        return len(self.keys) == self.size

    def undecoded(self) -> Rows:
        return self._replace(keys=[], values=[])

    def slice(self, rows: slice) -> Rows:
        return self._each(lambda column: column[rows])

    def select(self, mask: list[bool]) -> Rows:
        return self._each(lambda column: list(compress(column, mask)))

    def without(self, places: Sequence[int]) -> Rows:
        return self._each(lambda column: without(list(column), places)) if places else self

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
    if not all(rows.decoded for rows in several):
        several = [rows.undecoded() for rows in several]
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


def _from(batch: Batch, offset: int) -> Batch:
    """The records from this offset on."""
    first = bisect_left(batch.offsets, offset)
    columns = Columns(*(column and column[first:] for column in batch.columns))  # type: ignore[arg-type]
    return batch._replace(columns=columns, offsets=batch.offsets[first:])


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
        self.rejected: list[LeftOut] = []
        """Records that could not be decoded and are left out, until a commit passes them."""
        self.unread: Batch | None = None
        """What was read from the log, if its first record could not be decoded, and is to be tried again later."""
        self.retry_at: float | None = None
        """When, by the steady clock."""
        self._careful = 0
        self._tried = -1, 0
        """The offset of the record that was tried again last, and how often it was tried."""
        self._task = task
        self._left_out = left_out
        self._ahead = ahead
        self._has_marks = has_marks

    def add(self, batch: Batch, reject: Reject, now: int = 0) -> int:
        """Queue the rows of the batch, except those that cannot be decoded or whose timestamps are not allowed.

        If `reject` raises, the rows before the bad one are queued, and `poison` keeps the error until they are taken;
        or, if the record is to be decoded again later, `unread` keeps it and those after it.
        `now` is the time of the wall clock. Returns how many records there were.
        """
        if self.poison is not None:
            return 0
        whole = batch
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
        if self.retry_at is not None:
            self.unread = _from(whole, self.fetched)
        elif self.poison is None:
            self.fetched = batch.next_offset
        if self.place.origins is not None:
            self.place.origins.note([mark for mark in marks if mark[0] < self.fetched])
        return len(batch.offsets) if self.unread is None else bisect_left(batch.offsets, self.fetched)

    @property
    def first(self) -> int | None:
        """The offset of the first row that waits."""
        return self.waiting.offsets[0] if self.waiting.size else None

    def full(self, limit: int) -> bool:
        """Whether no more is to be read for now: there is enough for a round, or nearly.

        A batch of which some records were left out stays alone. To fill the round up, all columns would be copied.
        """
        return self.unread is not None or len(self.waiting.offsets) >= limit - limit // 16

    def add_unread(self, reject: Reject, now: int = 0) -> int:
        """Try again what could not be decoded."""
        assert self.unread is not None
        batch, self.unread, self.retry_at = self.unread, None, None
        return self.add(batch, reject, now)

    def pass_left_out(self) -> None:
        """If no rows wait, all records that were read are processed or left out."""
        if not self.waiting.size and self.poison is None:
            self.place.move(self.fetched)

    def put_back(self, rows: Rows) -> None:
        """These were taken, but could not be processed; they come first again. They are decoded in their round."""
        self.waiting = join_rows([rows.undecoded(), self.waiting])

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

    def failed(
        self, node: str, cause: BaseException, rows: Rows, place: int, stage: Stage, attempts: int
    ) -> FailedRecord:
        headers = rows.headers[place] if rows.headers else ()
        return FailedRecord(
            node,
            cause,
            self._task,
            *self.partition,
            rows.offsets[place],
            rows.raw_keys[place],
            rows.raw_values[place],
            headers,
            rows.timestamps[place],
            stage=stage,
            attempts=attempts,
        )

    def _only(self, reason: str, rows: Rows, mask: list[bool]) -> Rows:
        self._left_out[reason] += mask.count(False)
        self.place.left_out += [(offset, reason) for offset, kept in zip(rows.offsets, mask, strict=True) if not kept]
        return rows.select(mask)

    def _decoded(self, batch: Batch, reject: Reject, latest: int) -> Rows:
        keys, values, timestamps, headers = batch.columns
        raw = Rows(keys, values, batch.offsets, timestamps, headers, [], [])
        if not self._careful:
            with suppress(*faults()):
                return self._timed(raw.fresh(self.source), self._partition_time(latest), latest)
            self._careful = _CAREFUL
        self._careful -= 1
        return self._decoded_partly(raw, reject, latest)

    def _decoded_partly(self, raw: Rows, reject: Reject, latest: int) -> Rows:
        """Without the records that cannot be decoded, up to one that must not be left out."""
        if self.source.raw:
            return self._timed_partly(raw, reject, latest)
        values, bad = self.source.value.decode_column_partly(raw.raw_values)
        keys, bad_keys = self.source.key.decode_column_partly(raw.raw_keys)
        bad.update(bad_keys)
        bad_keys.clear()  # the frames in the tracebacks refer to this one, so it must not refer to the errors
        rows, places = raw._replace(keys=keys, values=values), sorted(bad)
        for place in places:
            if not self._may_leave_out(bad.pop(place), raw, place, reject):
                rows = rows.slice(slice(place))
                break
        bad.clear()
        rows = rows.without([place for place in places if place < rows.size])
        with suppress(*faults()):
            return self._timed(rows, self._partition_time(latest), latest)
        return self._timed_partly(rows, reject, latest)

    def _timed_partly(self, rows: Rows, reject: Reject, latest: int) -> Rows:
        """The same for a timestamp function. What it has changed in the values does not count."""
        done = []
        time = self._partition_time(latest)
        for place in range(rows.size):
            row = rows.slice(slice(place, place + 1)).fresh(self.source)
            try:
                done.append(self._timed(row, time, latest))
                time = max(time, *within(done[-1].timestamps, latest))
            except faults() as error:
                if not self._may_leave_out(error, row, 0, reject):
                    break
        return join_rows(done)

    def _may_leave_out(self, error: Exception, rows: Rows, place: int, reject: Reject) -> bool:
        """A method of its own: frames of the traceback must not refer to the record, or all rows stay in memory."""
        offset, attempts = self._tried
        attempts = 1 + (attempts if offset == rows.offsets[place] else 0)
        failed = self.failed(self.source.name, error, rows, place, "decode", attempts)
        try:
            self.rejected.append(reject(failed))
        except StepError as fatal:
            self.poison, self.fetched = fatal, failed.offset
            return False
        except TryAgain as again:
            self._tried, self.retry_at, self.fetched = (failed.offset, again.attempts), again.at, failed.offset
            return False
        return True

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
