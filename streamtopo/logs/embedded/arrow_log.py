"""The embedded log as Arrow batches, without Python code for each record: reads slices, and appends exactly once."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from streamtopo.errors import LogError
from streamtopo.logs.embedded.group import group_statements
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.batches import EncodedBatch, opened
from streamtopo.logs.embedded.storage.checkpoints import checkpoint
from streamtopo.logs.embedded.storage.checksums import WHOLE, StoredBatch, check_whole
from streamtopo.logs.embedded.storage.database import Database, reading, writing
from streamtopo.logs.embedded.storage.statements import PartitionExtent
from streamtopo.records import TopicPartition
from streamtopo.wall_clock import wall_clock

PAGE = 8 << 20
"""Bytes of batches that are read in one transaction, which must be short as it delays checkpoints."""
LEAST, MOST = -(1 << 63), (1 << 63) - 1


class TimestampRange(NamedTuple):
    """Timestamps from the first to the last, both included."""

    first: int = LEAST
    last: int = MOST


class Slice(NamedTuple):
    """A range of offsets of one partition of one log."""

    log: str
    topic: int
    source: TopicPartition
    start: int
    end: int


class ArrowLog:
    """The log in this directory, which must exist: it is never created."""

    def __init__(self, directory: str | Path) -> None:
        if not (Path(directory) / "log.db").is_file():
            raise LogError(
                f'there is no log at "{Path(directory).absolute()}" on this machine; an embedded log can only be read '
                "on its own host: give its path there, or use Kafka for a cluster"
            )
        self._database = Database(Path(directory), "FULL")
        with self._database.connection() as connection:
            self.log: str = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0]

    def close(self) -> None:
        self._database.close()

    # -- reading

    def extents(self, topic: str) -> dict[int, PartitionExtent]:
        """Where the partitions start and end, all at the same moment."""
        with self._database.connection() as connection, reading(connection):
            known = statements.topics(connection).get(topic)
            if known is None:
                names = ", ".join(statements.topics(connection)) or "none"
                raise LogError(f'there is no topic "{topic}" in "{self._database.directory}"; the topics are {names}')
            return {
                number: statements.extent(connection, TopicPartition(topic, number))
                for number in range(known[1].partitions)
            }

    def standing(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, tuple[PartitionExtent, int]]:
        """The extent of each partition, and what the group committed or else its start, all at the same moment."""
        with self._database.connection() as connection, reading(connection):
            known, found = statements.topics(connection), {}
            positions = group_statements.positions(connection, group)
            for topic in topics:
                if topic not in known:
                    raise LogError(f'there is no topic "{topic}" in "{self._database.directory}" yet')
                for number in range(known[topic][1].partitions):
                    part = TopicPartition(topic, number)
                    extent = statements.extent(connection, part)
                    found[part] = (extent, positions[part].offset if part in positions else extent.start)
            return found

    def slices(self, whole: Slice, times: TimestampRange, size: int) -> Iterator[Slice]:
        """Cut these offsets into pieces of about `size` bytes, without batches that have no such timestamp."""
        start, bytes_ = whole.start, 0
        with self._database.connection() as connection, reading(connection):
            self._check(connection, whole)
            for last, length in self._rows(connection, "last_offset, bytes", whole, times):
                bytes_ += length
                if bytes_ >= size:
                    yield whole._replace(start=start, end=min(last + 1, whole.end))
                    start, bytes_ = last + 1, 0
        if bytes_:
            yield whole._replace(start=start)

    def batches(self, piece: Slice, times: TimestampRange) -> Iterator[Any]:
        """Record batches with the columns key, value, timestamp, offset and, if there are any, headers."""
        if piece.log != self.log:
            raise LogError(
                f'the log at "{self._database.directory}" is a different one on this machine; run the executors on the '
                "host of the log"
            )
        for left, page in self._pages(piece, times):
            for blob in page:
                batch = _with_offsets(opened(blob, piece.source), blob.base)
                # Compaction may have merged records that were read before into this batch.
                if blob.base < left.start or blob.last >= left.end:
                    batch = batch.filter(_between(batch.column("offset"), left.start, left.end - 1))
                if blob.oldest < times.first or blob.newest > times.last:
                    batch = batch.filter(_between(batch.column("timestamp"), *times))
                if batch.num_rows:
                    yield batch

    def _pages(self, piece: Slice, times: TimestampRange) -> Iterator[tuple[Slice, list[StoredBatch]]]:
        """Batches that are read in one transaction, with what was left to read before it."""
        left = piece
        while left.start < left.end:
            with self._database.connection() as connection, reading(connection):
                known = self._check(connection, left)._replace(end=left.end)
                page: list[StoredBatch] = []
                size = 0
                for row in self._rows(connection, WHOLE, left, times):
                    check_whole(row[:9], left.source)
                    page.append(StoredBatch(*row))
                    size += page[-1].size
                    if size >= PAGE:
                        break
                if times == TimestampRange():
                    found = statements.FoundBatches(page, exhausted=size < PAGE)
                    statements.check_gaps(connection, left.source, known, left.start, found)
            yield left, page
            left = left._replace(start=page[-1].last + 1 if size >= PAGE else left.end)

    def _check(self, connection: sqlite3.Connection, left: Slice) -> PartitionExtent:
        now = statements.extent(connection, left.source)
        if now.topic != left.topic or now.start > left.start:
            raise LogError(
                f"records of {left.source} from offset {left.start} on were deleted before they were read; it starts "
                f"at {now.start} now: keep records longer than reading takes (retention.ms), and try again"
            )
        return now

    def _rows(self, connection: sqlite3.Connection, columns: str, whole: Slice, times: TimestampRange) -> Iterator[Any]:
        cursor = connection.execute(
            f"SELECT {columns} FROM batches "
            "WHERE topic = ? AND partition = ? AND last_offset >= ? AND base_offset < ? "
            "AND max_timestamp >= ? AND min_timestamp <= ? ORDER BY last_offset",
            (whole.topic, whole.source.partition, whole.start, whole.end, *times),
        )
        with closing(cursor):
            yield from cursor

    # -- writing

    def append(
        self, batches: Iterable[tuple[TopicPartition, EncodedBatch]], name: str | None = None, number: int = 0
    ) -> bool:
        """All of it in one transaction; nothing if this name has written with this number or a higher one before."""
        note = None if name is None else f"commit:{name}"
        with self._database.connection() as connection:
            with writing(connection):
                done = _noted(connection, note)
                if done is not None and done >= number:
                    return False
                for target, encoded in batches:
                    statements.append(connection, target, [encoded], wall_clock())
                if note is not None:
                    connection.execute("INSERT OR REPLACE INTO notes (name, text) VALUES (?, ?)", (note, str(number)))
            with suppress(sqlite3.Error):  # the records are written; a later checkpoint moves them
                checkpoint(connection)
            return True

    def appended(self, name: str) -> int | None:
        """The last number with which this name wrote, or None."""
        with self._database.connection() as connection:
            return _noted(connection, f"commit:{name}")


def _noted(connection: sqlite3.Connection, note: str | None) -> int | None:
    done = connection.execute("SELECT text FROM notes WHERE name = ?", (note,)).fetchone()
    return None if done is None else int(done[0])


def _with_offsets(batch: Any, base: int) -> Any:
    if "offset" in batch.schema.names:
        return batch
    numbers = _numbers(1 << batch.num_rows.bit_length()).slice(0, batch.num_rows)
    return batch.append_column("offset", pc.add(numbers, base))


@lru_cache
def _numbers(count: int) -> Any:
    """0, 1, 2, …, made only once."""
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(array("q", range(count)))])


def _between(column: Any, first: int, last: int) -> Any:
    return pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))
