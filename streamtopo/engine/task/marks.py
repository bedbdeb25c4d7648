"""Marks: records in repartition topics in which the tasks that write them announce their stream time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamtopo.engine.task.options import TaskId
from streamtopo.records import Batch, Columns, has_null

HEADER = "__streamtopo.mark"
"""A record without a key and with this header is a mark. What it says is in the header: there is no value, as programs
that know nothing of marks, and workers of older versions, could not decode it."""
_ENTRY = struct.Struct(">HIq?")


class Announcement(NamedTuple):
    """What a task says about the rows that it has written to a repartition topic: a later row should not be older."""

    origin: TaskId
    time: int
    """Stream time; -1 if there was no record so far."""
    caught_up: bool
    """Whether it has processed all records that there were."""


Mark = Sequence[Announcement]


def mark_columns(mark: Mark) -> Columns:
    """One record. Its timestamp is only there because each record has one."""
    data = b"".join(_ENTRY.pack(*origin, time, caught_up) for origin, time, caught_up in mark)
    return Columns([None], [None], [max(0, *[one.time for one in mark])], [((HEADER, data),)])


def without_marks(batch: Batch) -> tuple[Batch, list[tuple[int, Mark]]]:
    """The other records of the batch; and the marks, each with its offset."""
    keys, _, _, headers = batch.columns
    if headers is None or not has_null(keys):
        return batch, []
    found = {
        place: data for place, key in enumerate(keys) if key is None and (data := _data(headers[place])) is not None
    }
    if not found:
        return batch, []
    marks: list[tuple[int, Mark]] = [(batch.offsets[place], list(_decoded(data))) for place, data in found.items()]
    rest = [place for place in range(len(keys)) if place not in found]
    columns = Columns(*(column and [column[place] for place in rest] for column in batch.columns))  # type: ignore[arg-type]
    if columns.headers is not None and not any(columns.headers):
        columns = columns._replace(headers=None)
    return batch._replace(columns=columns, offsets=[batch.offsets[place] for place in rest]), marks


def _data(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """None if it is not a mark."""
    return next((data or b"" for name, data in headers if name == HEADER), None)


def _decoded(data: bytes) -> Iterator[Announcement]:
    for subtopology, partition, time, caught_up in _ENTRY.iter_unpack(data):
        yield Announcement(TaskId(subtopology, partition), time, caught_up)
