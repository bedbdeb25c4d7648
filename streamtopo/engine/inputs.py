"""One partition that a task reads: its records decoded, timed, and waiting in offset order to be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from streamtopo.errors import StepError
from streamtopo.records import Batch, Headers, TopicPartition
from streamtopo.topology import SourceNode

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
        if source.timestamp is not None and self.extracted and callable(source.timestamp.take):
            source.timestamp.column(keys, values, self.timestamps, -1)
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
    def __init__(self, source: SourceNode, partition: TopicPartition) -> None:
        self.source = source
        self.partition = partition
        self.time = -1
        """The largest timestamp taken so far."""
        self.clear(0)

    def clear(self, offset: int) -> None:
        """Nothing waits, and reading goes on at this offset."""
        self.waiting = NO_ROWS
        self.fetched = offset
        self.poison: StepError | None = None

    def add(self, batch: Batch, reject: Reject) -> int:
        """Queue the batch's rows; returns how many were dropped for their negative timestamp.

        If `reject` raises, the rows before the bad one are queued, and `poison` holds the error until they are taken.
        """
        if self.poison is not None:
            return 0
        rows = self._decoded(batch, reject)
        usable = rows
        if rows.timestamps and min(rows.timestamps) < 0:
            usable = rows.select([time >= 0 for time in rows.timestamps])
        self.waiting = join_rows([self.waiting, usable])
        if self.poison is None:
            self.fetched = batch.next_offset
        return rows.size - usable.size

    def take(self, count: int) -> Part:
        rows, self.waiting = self.waiting, NO_ROWS
        if count < rows.size:
            rows, self.waiting = rows.slice(slice(0, count)), rows.slice(slice(count, None))
        return Part(self, rows, max(rows.timestamps), self.waiting.offsets[0] if self.waiting.size else self.fetched)

    def _decoded(self, batch: Batch, reject: Reject) -> Rows:
        keys, values, timestamps, headers = batch.columns
        raw = Rows(keys, values, batch.offsets, timestamps, headers, [], [])
        try:
            return self._timed(raw.fresh(self.source), self._partition_time())
        except Exception:
            return self._decoded_one_by_one(raw, reject)

    def _decoded_one_by_one(self, raw: Rows, reject: Reject) -> Rows:
        rows = []
        time = self._partition_time()
        for place, offset in enumerate(raw.offsets):
            try:
                rows.append(self._timed(raw.slice(slice(place, place + 1)).fresh(self.source), time))
                time = max(time, *rows[-1].timestamps)
            except Exception as error:
                failure = StepError(self.source.name, f"{self.partition} offset {offset}", error)
                try:
                    reject(failure)
                except StepError as fatal:
                    self.poison, self.fetched = fatal, offset
                    break
        return join_rows(rows)

    def _partition_time(self) -> int:
        """The largest time of all records before those to come, if anybody may ask for it."""
        return -1 if self.source.timestamp is None else max([self.time, *self.waiting.timestamps])

    def _timed(self, rows: Rows, partition_time: int) -> Rows:
        if self.source.timestamp is None:
            return rows
        times = self.source.timestamp.column(rows.keys, rows.values, rows.timestamps, partition_time)
        return rows._replace(timestamps=times, extracted=True)


class Part(NamedTuple):
    """What a round takes from one input, and the offset the input stands at after it."""

    input: Input
    rows: Rows
    time: int
    """The largest timestamp of the rows."""
    next_offset: int
