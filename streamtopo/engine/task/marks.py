"""Marks: records in repartition topics in which the tasks that write them announce their stream time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamtopo.engine.task.options import TaskId
from streamtopo.records import Batch, Columns, has_null

HEADER = "__streamtopo.mark"
"""A record without a key and with this header is a mark."""
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
    return Columns([None], [data], [max(0, *[one.time for one in mark])], [((HEADER, b""),)])


def without_marks(batch: Batch) -> tuple[Batch, list[tuple[int, Mark]]]:
    """The other records of the batch; and the marks, each with its offset."""
    keys, values, _, headers = batch.columns
    if headers is None or not has_null(keys):
        return batch, []
    places = [place for place, key in enumerate(keys) if key is None and _is_mark(headers[place])]
    if not places:
        return batch, []
    marks: list[tuple[int, Mark]] = [(batch.offsets[place], list(_decoded(values[place] or b""))) for place in places]
    rest = sorted(set(range(len(keys))).difference(places))
    columns = Columns(*(column and [column[place] for place in rest] for column in batch.columns))  # type: ignore[arg-type]
    if columns.headers is not None and not any(columns.headers):
        columns = columns._replace(headers=None)
    return batch._replace(columns=columns, offsets=[batch.offsets[place] for place in rest]), marks


def _is_mark(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    return any(name == HEADER for name, _ in headers)


def _decoded(data: bytes) -> Iterator[Announcement]:
    for subtopology, partition, time, caught_up in _ENTRY.iter_unpack(data):
        yield Announcement(TaskId(subtopology, partition), time, caught_up)
