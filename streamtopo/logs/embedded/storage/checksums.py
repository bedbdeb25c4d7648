"""Checksums of each batch (its row and its bytes) and of each row of the small tables. Damaged data is not used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from streamtopo.errors import LogDamaged
from streamtopo.records import TopicPartition

_FACTS = Struct("<9q")
_ONE_TABLE = (3, 33)
"""The first SQLite version that can check one table; earlier ones check the whole database, which takes too long."""


ADVICE = (
    "restore a copy of the log, or skip them: move the groups to positions after them (streamtopo reset --from-file); "
    "streamtopo topics verify lists all damage"
)


class StoredBatch(NamedTuple):
    """A batch as it is stored."""

    topic: int
    partition: int
    base: int
    last: int
    rows: int
    oldest: int
    newest: int
    appended: int
    size: int
    data: bytes
    crc: int | None
    """None if it was written by a version without checksums."""


FACTS = "topic, partition, base_offset, last_offset, count, min_timestamp, max_timestamp, appended, bytes"
WHOLE = f"{FACTS}, CAST(data AS BLOB), crc"


def checksum(facts: Sequence[int], data: Any) -> int:
    """`facts` are the other columns of the row of the batch, so that a batch in the wrong place is detected too."""
    return crc32(data, crc32(_FACTS.pack(*facts)))


def intact(blob: StoredBatch) -> bool:
    return blob.crc is None or blob.crc == checksum(blob[:9], blob.data)


def check_whole(numbers: Sequence[object], source: TopicPartition) -> None:
    """In SQLite a column of numbers may have values of any type."""
    if not all(type(number) is int for number in numbers):
        raise LogDamaged(f"a batch of {source} is damaged in log.db: {numbers}; {ADVICE}", f"its row says {numbers}")


def damaged(source: TopicPartition, first: int, last: int, reason: str) -> LogDamaged:
    return LogDamaged(
        f"the records of {source} from offset {first} to {last} are damaged in log.db: {reason}; {ADVICE}", reason
    )


# -- the small tables


class CheckedTable(NamedTuple):
    name: str
    key: tuple[str, ...]
    others: tuple[str, ...] = ()

    def seal(self, row: str = "") -> str:
        """The checksum of a row, in SQL; in triggers `row` is "NEW." or "OLD."."""
        return f"seal({', '.join(row + column for column in self.key + self.others)})"


TABLES = (
    CheckedTable("meta", ("name",), ("value",)),
    CheckedTable("notes", ("name",), ("text",)),
    CheckedTable("topics", ("id",), ("name", "partitions", "config")),
    CheckedTable("deleted_topics", ("id",)),
    CheckedTable(
        "partitions", ("topic", "partition"), ("start_offset", "next_offset", "records", "bytes", "compacted")
    ),
    CheckedTable("positions", ("group_name", "topic", "partition"), ("next_offset", "metadata")),
    CheckedTable("members", ("id",), ("group_name", "topics", "pid")),
    CheckedTable("owners", ("epoch",), ("group_name", "topic", "partition", "member")),
    CheckedTable("cleanings", ("topic", "partition", "before_offset"), ("at",)),
)


def sealing() -> Iterator[str]:
    """The statements that add a checksum to each row of each table, and keep it up to date.

    Triggers do that, so that no statement can forget it. They call a function of this program: a program without it,
    such as an earlier version that is still running, cannot write.
    """
    yield "ALTER TABLE batches ADD COLUMN crc INTEGER"
    for table in TABLES:
        yield f"ALTER TABLE {table.name} ADD COLUMN crc INTEGER"
        yield f"UPDATE {table.name} SET crc = {table.seal()}"
        same = " AND ".join(f"{column} = NEW.{column}" for column in table.key)
        seal = f"BEGIN UPDATE {table.name} SET crc = {table.seal('NEW.')} WHERE {same}; END"
        yield f"CREATE TRIGGER {table.name}_inserted AFTER INSERT ON {table.name} {seal}"
        columns = ", ".join(table.key + table.others)
        yield f"CREATE TRIGGER {table.name}_updated AFTER UPDATE OF {columns} ON {table.name} {seal}"
        if table.name == "partitions":  # the only table in which new values are computed from old ones
            yield (
                f"CREATE TRIGGER partitions_checked BEFORE UPDATE OF {columns} ON partitions "
                f"WHEN OLD.crc IS NOT {table.seal('OLD.')} "
                "BEGIN SELECT RAISE(ABORT, 'a row of the table partitions is not what was written'); END"
            )


def seal(*values: object) -> int:
    # Not `repr`: which characters it escapes depends on the Unicode of this Python.
    return crc32(ascii(values).encode())


def damages(connection: sqlite3.Connection) -> Iterator[str]:
    """The damage in the small tables."""
    for table in TABLES:
        try:
            yield from _damages(connection, table)
        except sqlite3.Error as error:
            check_damage(error)
            problem = "a text in it is not UTF-8" if _OURS in str(error) else error
            yield f'table "{table.name}": {problem}'


_OURS = "user-defined function raised"
"""What SQLite says if `seal` cannot be called: Python cannot read one of the values."""
_NO_DAMAGE = ("BUSY", "FULL", "IOERR_SHM", "CANTOPEN", "READONLY", "NOMEM", "PROTOCOL")
"""Errors that say nothing about the file: locks, no space, no memory, no file descriptors, no permission."""


def check_damage(error: sqlite3.Error) -> None:
    """Raise the error again if it says nothing about the contents of the file."""
    if getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").startswith(_NO_DAMAGE):
        raise error


def _damages(connection: sqlite3.Connection, table: CheckedTable) -> Iterator[str]:
    if sqlite3.sqlite_version_info >= _ONE_TABLE:
        for (line,) in connection.execute(f"PRAGMA integrity_check({table.name})").fetchall():
            if line != "ok":
                yield f'table "{table.name}": {line}'
    columns = ", ".join(table.key)
    for row in connection.execute(f"SELECT {columns} FROM {table.name} WHERE crc IS NOT {table.seal()}").fetchall():
        yield f'table "{table.name}": the row {row} is not what was written'
