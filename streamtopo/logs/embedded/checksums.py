"""Checksums: of each batch over its row and its bytes, of each row of the small tables. What is damaged is not used."""

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
"""The SQLite that can check one table; earlier ones check the whole database instead, which takes too long."""


ADVICE = (
    "restore a copy of the log, or leave them out: let groups go on after them (streamtopo reset --from-file); "
    "streamtopo topics verify lists all damage"
)


class Blob(NamedTuple):
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
    """None if it was written by a version that had no checksums."""


FACTS = "topic, partition, base_offset, last_offset, count, min_timestamp, max_timestamp, appended, bytes"
WHOLE = f"{FACTS}, CAST(data AS BLOB), crc"


def checksum(facts: Sequence[int], data: Any) -> int:
    """`facts` are the other columns of the batch's row, so that a batch in the wrong place is noticed, too."""
    return crc32(data, crc32(_FACTS.pack(*facts)))


def intact(blob: Blob) -> bool:
    return blob.crc is None or blob.crc == checksum(blob[:9], blob.data)


def check_whole(numbers: Sequence[object], source: TopicPartition) -> None:
    """A column of numbers may hold anything in SQLite."""
    if not all(type(number) is int for number in numbers):
        raise LogDamaged(f"a batch of {source} is damaged in log.db: {numbers}; {ADVICE}", f"its row says {numbers}")


def damaged(source: TopicPartition, first: int, last: int, reason: str) -> LogDamaged:
    return LogDamaged(
        f"the records of {source} from offset {first} to {last} are damaged in log.db: {reason}; {ADVICE}", reason
    )


# -- the small tables


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    others: tuple[str, ...] = ()

    def seal(self, row: str = "") -> str:
        """The checksum, in SQL, of a row; `NEW.` and `OLD.` are those of triggers."""
        return f"seal({', '.join(row + column for column in self.key + self.others)})"


TABLES = (
    Table("meta", ("name",), ("value",)),
    Table("notes", ("name",), ("text",)),
    Table("topics", ("id",), ("name", "partitions", "config")),
    Table("deleted_topics", ("id",)),
    Table("partitions", ("topic", "partition"), ("start_offset", "next_offset", "records", "bytes", "compacted")),
    Table("positions", ("group_name", "topic", "partition"), ("next_offset", "metadata")),
    Table("members", ("id",), ("group_name", "topics", "pid")),
    Table("owners", ("epoch",), ("group_name", "topic", "partition", "member")),
    Table("cleanings", ("topic", "partition", "before_offset"), ("at",)),
)


def sealing() -> Iterator[str]:
    """The statements that give each table its checksums, and keep them.

    Triggers keep them, so that no statement can forget it. The function that they call is ours: a program that does
    not know it, such as an earlier version that still runs, cannot write.
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
        if table.name == "partitions":  # the only table in which new values are made of old ones
            yield (
                f"CREATE TRIGGER partitions_checked BEFORE UPDATE OF {columns} ON partitions "
                f"WHEN OLD.crc IS NOT {table.seal('OLD.')} "
                "BEGIN SELECT RAISE(ABORT, 'a row of the table partitions is not what was written'); END"
            )


def seal(*values: object) -> int:
    # Not `repr`: which characters it escapes depends on the Unicode of this Python.
    return crc32(ascii(values).encode())


def damages(connection: sqlite3.Connection) -> Iterator[str]:
    """What is damaged in the small tables."""
    for table in TABLES:
        try:
            yield from _damages(connection, table)
        except sqlite3.Error as error:
            check_damage(error)
            yield f'table "{table.name}": {error}'


_NO_DAMAGE = ("BUSY", "FULL", "IOERR_SHM", "CANTOPEN", "READONLY", "NOMEM", "PROTOCOL")
"""What keeps SQLite from reading a file that may well be whole: locks, no room, no descriptors, no rights."""


def check_damage(error: sqlite3.Error) -> None:
    """Raises it again if it says nothing about what is in the file."""
    if getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").startswith(_NO_DAMAGE):
        raise error


def _damages(connection: sqlite3.Connection, table: Table) -> Iterator[str]:
    if sqlite3.sqlite_version_info >= _ONE_TABLE:
        for (line,) in connection.execute(f"PRAGMA integrity_check({table.name})").fetchall():
            if line != "ok":
                yield f'table "{table.name}": {line}'
    columns = ", ".join(table.key)
    for row in connection.execute(f"SELECT {columns} FROM {table.name} WHERE crc IS NOT {table.seal()}").fetchall():
        yield f'table "{table.name}": the row {row} is not what was written'
