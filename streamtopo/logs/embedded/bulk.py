"""Whole batches for those who want Arrow and no Python per record: slices of offsets, and appending exactly once."""

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
from streamtopo.logs.embedded import roster, storage
from streamtopo.logs.embedded.batches import Encoded, opened
from streamtopo.logs.embedded.checkpoints import checkpoint
from streamtopo.logs.embedded.checksums import WHOLE, Blob, check_whole
from streamtopo.logs.embedded.database import Database, reading, wall_clock, writing
from streamtopo.logs.embedded.storage import Extent
from streamtopo.records import TopicPartition

PAGE = 8 << 20
"""Bytes of batches that are read in one transaction: a reader that is waited for must not hold up checkpoints."""
LEAST, MOST = -(1 << 63), (1 << 63) - 1


class Times(NamedTuple):
    """Timestamps, from the first to the last: both are read."""

    first: int = LEAST
    last: int = MOST


class Slice(NamedTuple):
    """Neighbouring offsets of one partition of one log."""

    log: str
    topic: int
    source: TopicPartition
    start: int
    end: int


class Bulk:
    """The log in this directory, which must be there: nothing is created by looking."""

    def __init__(self, directory: str | Path) -> None:
        if not (Path(directory) / "log.db").is_file():
            raise LogError(
                f'there is no log at "{Path(directory).absolute()}" on this machine; the embedded log is read where it '
                "is, by executors on its own host: give its path there, or use Kafka for a cluster"
            )
        self._database = Database(Path(directory), "FULL")
        with self._database.connection() as connection:
            self.log: str = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0]

    def close(self) -> None:
        self._database.close()

    # -- reading

    def extents(self, topic: str) -> dict[int, Extent]:
        """Where the partitions start and end, all at one moment."""
        with self._database.connection() as connection, reading(connection):
            known = storage.topics(connection).get(topic)
            if known is None:
                names = ", ".join(storage.topics(connection)) or "none"
                raise LogError(f'there is no topic "{topic}" in "{self._database.directory}"; the topics are {names}')
            return {
                number: storage.extent(connection, TopicPartition(topic, number))
                for number in range(known[1].partitions)
            }

    def standing(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, tuple[Extent, int]]:
        """Of each partition its extent and what the group committed, or its start: all at one moment."""
        with self._database.connection() as connection, reading(connection):
            known, found = storage.topics(connection), {}
            positions = roster.positions(connection, group)
            for topic in topics:
                if topic not in known:
                    raise LogError(f'there is no topic "{topic}" in "{self._database.directory}" yet')
                for number in range(known[topic][1].partitions):
                    part = TopicPartition(topic, number)
                    extent = storage.extent(connection, part)
                    found[part] = (extent, positions[part].offset if part in positions else extent.start)
            return found

    def slices(self, whole: Slice, times: Times, size: int) -> Iterator[Slice]:
        """Cut these offsets into pieces of about `size` bytes; what holds no such timestamp is left out."""
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

    def batches(self, piece: Slice, times: Times) -> Iterator[Any]:
        """Record batches of key, value, timestamp, offset and, where there are any, headers."""
        if piece.log != self.log:
            raise LogError(f'the log at "{self._database.directory}" is another one here; executors run on its host')
        for left, page in self._pages(piece, times):
            for blob in page:
                batch = _with_offsets(opened(blob, piece.source), blob.base)
                # Compaction may have joined what is left to read with what was read before.
                if blob.base < left.start or blob.last >= left.end:
                    batch = batch.filter(_between(batch.column("offset"), left.start, left.end - 1))
                if blob.oldest < times.first or blob.newest > times.last:
                    batch = batch.filter(_between(batch.column("timestamp"), *times))
                if batch.num_rows:
                    yield batch

    def _pages(self, piece: Slice, times: Times) -> Iterator[tuple[Slice, list[Blob]]]:
        """Each with what was left to read when it was read."""
        left = piece
        while left.start < left.end:
            with self._database.connection() as connection, reading(connection):
                known = self._check(connection, left)._replace(end=left.end)
                page: list[Blob] = []
                size = 0
                for row in self._rows(connection, WHOLE, left, times):
                    check_whole(row[:9], left.source)
                    page.append(Blob(*row))
                    size += page[-1].size
                    if size >= PAGE:
                        break
                if times == Times():
                    found = storage.Found(page, exhausted=size < PAGE)
                    storage.check_gaps(connection, left.source, known, left.start, found)
            yield left, page
            left = left._replace(start=page[-1].last + 1 if size >= PAGE else left.end)

    def _check(self, connection: sqlite3.Connection, left: Slice) -> Extent:
        now = storage.extent(connection, left.source)
        if now.topic != left.topic or now.start > left.start:
            raise LogError(
                f"records of {left.source} from offset {left.start} on were deleted while they were to be read; it "
                f"starts at {now.start} now: keep records longer than reading takes (retention.ms), and run it again"
            )
        return now

    def _rows(self, connection: sqlite3.Connection, columns: str, whole: Slice, times: Times) -> Iterator[Any]:
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
        self, batches: Iterable[tuple[TopicPartition, Encoded]], name: str | None = None, number: int = 0
    ) -> bool:
        """All of it in one transaction; nothing if what this name wrote with this number, or a higher one, is there."""
        note = None if name is None else f"commit:{name}"
        with self._database.connection() as connection:
            with writing(connection):
                done = _noted(connection, note)
                if done is not None and done >= number:
                    return False
                for target, encoded in batches:
                    storage.append(connection, target, [encoded], wall_clock())
                if note is not None:
                    connection.execute("INSERT OR REPLACE INTO notes (name, text) VALUES (?, ?)", (note, str(number)))
            with suppress(sqlite3.Error):  # what was written is there; a later checkpoint moves it
                checkpoint(connection)
            return True

    def appended(self, name: str) -> int | None:
        """The last number under which this name wrote."""
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
    """0, 1, 2, …; made once."""
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(array("q", range(count)))])


def _between(column: Any, first: int, last: int) -> Any:
    return pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))
