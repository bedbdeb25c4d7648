"""One partition that a task reads: its records decoded, timed, and waiting in offset order to be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from streamtopo.errors import SerdeError, StepError
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

    @property
    def size(self) -> int:
        return len(self.offsets)

    def slice(self, rows: slice) -> Rows:
        return Rows(*(column and column[rows] for column in self))  # type: ignore[arg-type]

    def select(self, mask: list[bool]) -> Rows:
        return Rows(*(column and list(compress(column, mask)) for column in self))  # type: ignore[arg-type]

    def fresh(self, source: SourceNode) -> Rows:
        """The same records decoded again, for user code may have changed the values in place."""
        return self._replace(
            keys=source.key.decode_column(self.raw_keys), values=source.value.decode_column(self.raw_values)
        )


NO_ROWS = Rows([], [], [], [], None, [], [])


def join_rows(first: Rows, second: Rows) -> Rows:
    if not first.size:
        return second
    headers = None
    if first.headers is not None or second.headers is not None:
        headers = [*(first.headers or [()] * first.size), *(second.headers or [()] * second.size)]
    joined = ([*(ours or ()), *(theirs or ())] for ours, theirs in zip(first, second, strict=True))
    return Rows(*joined)._replace(headers=headers)


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
        self.waiting = join_rows(self.waiting, usable)
        self.fetched = batch.next_offset
        return rows.size - usable.size

    def take(self, count: int) -> Part:
        rows, self.waiting = self.waiting, NO_ROWS
        if count < rows.size:
            rows, self.waiting = rows.slice(slice(0, count)), rows.slice(slice(count, None))
        return Part(self, rows, self.waiting.offsets[0] if self.waiting.size else self.fetched)

    def _decoded(self, batch: Batch, reject: Reject) -> Rows:
        keys, values, timestamps, headers = batch.columns
        raw = Rows(keys, values, batch.offsets, timestamps, headers, [], [])
        try:
            return self._timed(raw.fresh(self.source))
        except Exception:
            return self._decoded_one_by_one(raw, reject)

    def _decoded_one_by_one(self, raw: Rows, reject: Reject) -> Rows:
        rows = NO_ROWS
        for place, offset in enumerate(raw.offsets):
            try:
                rows = join_rows(rows, self._timed(raw.slice(slice(place, place + 1)).fresh(self.source)))
            except Exception as error:
                failure = StepError(self.source.name, f"{self.partition} offset {offset}", error)
                try:
                    reject(failure)
                except StepError as fatal:
                    self.poison = fatal
                    break
        return rows

    def _timed(self, rows: Rows) -> Rows:
        extract = self.source.timestamp
        if extract is None:
            return rows
        times = list(map(extract, rows.keys, rows.values))
        for time in times:
            if type(time) is not int:
                raise SerdeError(f"the timestamp function returned {time!r}; return milliseconds as an int")
        return rows._replace(timestamps=times)


class Part(NamedTuple):
    """What a round takes from one input, and the offset the input stands at after it."""

    input: Input
    rows: Rows
    next_offset: int
