"""Reads a whole log to find all damage; it continues after what is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streamtopo.errors import LogDamaged, LogError
from streamtopo.logs.embedded.storage import checksums
from streamtopo.logs.embedded.storage import statements as storage
from streamtopo.logs.embedded.storage.batches import opened
from streamtopo.logs.embedded.storage.database import Database, explain, reading
from streamtopo.records import TopicPartition

PAGE = 8 << 20
"""Bytes of batches that are read in one transaction."""


class Damage(NamedTuple):
    """Damaged records from `first` to `last`; without a topic, a small table or the structure of the file."""

    problem: str
    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None


class Verified(NamedTuple):
    damages: list[Damage]
    batches: int
    records: int
    unchecked: int
    """Batches of versions without checksums: they can be read, but may have wrong values."""


def verify(directory: Path, topics: Collection[str]) -> Verified:
    """Check the log: its tables, and the batches of these topics, or of all topics if none is named."""
    with closing(Database(directory, "FULL", checked=False)) as database, database.connection() as connection:
        damages = [Damage(problem) for problem in (*structure(connection), *checksums.damages(connection))]
        blobs = rows = unchecked = 0
        try:
            known = storage.topics(connection)
            for name in set(topics) - known.keys():
                raise LogError(f'there is no topic "{name}" in "{directory}"; it has the topics {", ".join(known)}')
            for name in sorted(topics or known):
                for number in range(known[name][1].partitions):
                    for found in _read(connection, TopicPartition(name, number)):
                        if isinstance(found, Damage):
                            damages.append(found)
                        else:
                            blobs, rows, unchecked = blobs + 1, rows + found.rows, unchecked + (found.crc is None)
        except sqlite3.Error as error:
            checksums.check_damage(error)
            damages.append(Damage(f"reading ended here: {explain(error, directory)}"))
        except ValueError as error:
            damages.append(Damage(f"reading ended here: {error}"))
        return Verified(damages, blobs, rows, unchecked)


def structure(connection: sqlite3.Connection) -> Iterator[str]:
    """Damage that SQLite finds in its pages and indexes."""
    try:
        for (line,) in connection.execute("PRAGMA integrity_check").fetchall():
            if line != "ok":
                yield line
    except sqlite3.Error as error:
        checksums.check_damage(error)
        yield str(error)


def _read(connection: sqlite3.Connection, source: TopicPartition) -> Iterator[checksums.StoredBatch | Damage]:
    """Each intact batch of the partition, and each damage."""
    offset, end = -1, 0
    while offset < end:
        with reading(connection):
            known = storage.extent(connection, source)
            offset, end = max(offset, known.start), known.end
            found = storage.find(connection, known.topic, source, offset, 1 << 62, PAGE)
            compacted = storage.compacted(connection, known.topic, source.partition)
        if not compacted:
            for start, stop in storage.gaps(found, offset, end):
                yield Damage("the database does not find the records", *source, start, stop - 1)
        for blob in found.blobs:
            try:
                opened(blob, source)
            except LogDamaged as error:
                yield Damage(error.problem, *source, blob.base, blob.last)
            else:
                yield blob
        # The offset in the index may be damaged; it must not lead back to records that were read.
        offset = end if found.exhausted else max(offset, found.blobs[-1].last) + 1
