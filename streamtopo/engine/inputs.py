"""One partition that a task reads: its records decoded, timed, and waiting in offset order to be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from streamtopo.engine.ahead import ANY, Ahead
from streamtopo.errors import StepError
from streamtopo.records import Batch, Headers, TopicPartition, within
from streamtopo.topology import SourceNode
from streamtopo.windows import FOREVER

Reject = Callable[[StepError], None]
"""Acts on a record that cannot be used: raises the error, or returns to go on without the record."""


class Rows(NamedTuple):
    """Records, raw (to decode again when a round is replayed) and decoded, column by column."""

    raw_keys: list[bytes | None]
    raw_values: list[bytes | None]
    offsets: Sequence[int]
    timestamps: list[int]
    headers: list[Headers] | None
    keys: list[Any]
    values: list[Any]
    extracted: bool = False
    """The timestamps are those of the source's own function."""

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
        """The same records decoded again, as user code may have changed the values in place.

        The timestamp function is called again, as it may be the one that does; its answers are known.
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
        self, source: SourceNode, partition: TopicPartition, dropped: Callable[[str, int], None], ahead: Ahead = ANY
    ) -> None:
        """`dropped` counts rows by the reason why they are left out."""
        self.source = source
        self.partition = partition
        self.time = -1
        """The largest timestamp taken so far, of those that clocks follow."""
        self._dropped = dropped
        self._ahead = ahead
        self.clear(0)

    def clear(self, offset: int) -> None:
        """Nothing waits, and reading goes on at this offset."""
        self.waiting = NO_ROWS
        self.fetched = offset
        self.poison: StepError | None = None

    def add(self, batch: Batch, reject: Reject, now: int = 0) -> None:
        """Queue the batch's rows but for those whose timestamps the source does not take; `now` is the wall clock's.

        If `reject` raises, the rows before the bad one are queued, and `poison` holds the error until they are taken.
        """
        if self.poison is not None:
            return
        latest = self._ahead.latest(now)
        rows = self._decoded(batch, reject, latest)
        if rows.timestamps and min(rows.timestamps) < 0:
            rows = self._only("negative timestamp", rows, [time >= 0 for time in rows.timestamps])
        if self._ahead.then == "skip" and max(rows.timestamps, default=-1) > latest:
            rows = self._only("too far ahead", rows, [time <= latest for time in rows.timestamps])
        self.waiting = join_rows([self.waiting, rows])
        if self.poison is None:
            self.fetched = batch.next_offset

    def take(self, count: int, bound: int = FOREVER) -> Part:
        """The next rows; clocks do not follow those past the bound."""
        rows, self.waiting = self.waiting, NO_ROWS
        if count < rows.size:
            rows, self.waiting = rows.slice(slice(0, count)), rows.slice(slice(count, None))
        following = self.waiting.offsets[0] if self.waiting.size else self.fetched
        time, ahead = max(rows.timestamps), []
        if time > bound:
            time = max(within(rows.timestamps, bound))
            ahead = [place for place, one in enumerate(rows.timestamps) if one > bound]
        return Part(self, rows, time, following, ahead)

    def _only(self, reason: str, rows: Rows, mask: list[bool]) -> Rows:
        self._dropped(reason, mask.count(False))
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
        for place, offset in enumerate(raw.offsets):
            try:
                rows.append(self._timed(raw.slice(slice(place, place + 1)).fresh(self.source), time, latest))
                time = max(time, *within(rows[-1].timestamps, latest))
            except Exception as error:
                failure = StepError(self.source.name, f"{self.partition} offset {offset}", error)
                try:
                    reject(failure)
                except StepError as fatal:
                    self.poison, self.fetched = fatal, offset
                    break
        return join_rows(rows)

    def _partition_time(self, latest: int) -> int:
        """The largest time of all records before those to come, if anybody may ask for it."""
        return -1 if self.source.timestamp is None else max([self.time, *within(self.waiting.timestamps, latest)])

    def _timed(self, rows: Rows, partition_time: int, latest: int) -> Rows:
        if self.source.timestamp is not None:
            times = self.source.timestamp.column(rows.keys, rows.values, rows.timestamps, partition_time, latest)
            rows = rows._replace(timestamps=times, extracted=True)
        if self._ahead.then == "fail":
            self._ahead.check(rows.timestamps, latest)
        return rows


class Part(NamedTuple):
    """What a round takes from one input, and the offset the input stands at after it."""

    input: Input
    rows: Rows
    time: int
    """The largest timestamp of the rows that clocks follow; -1 if there is none."""
    next_offset: int
    ahead: Sequence[int] = ()
    """The places of the rows that clocks do not follow."""
