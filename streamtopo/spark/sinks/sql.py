"""Rows into a SQL database: tasks fill a staging table, the driver moves rows and offsets in one transaction."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.types import DataType, DecimalType

from streamtopo.errors import ConfigError, StreamtopoError
from streamtopo.settings.extras import missing
from streamtopo.settings.redaction import shown_url
from streamtopo.spark.sinks.delivery import Delivery

SCHEMES = ("sqlite", "postgresql")
PROGRESS = "streamtopo_rollups"
ROWS = 1_000
"""How many rows a task sends at once."""
_PARTS = re.compile(r"[^:/?&=@,]+")
"""In a URL."""
_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "date": "date",
    "timestamp": "timestamptz",
}


class SqlSink:
    """The table has the name and the columns of the rollup; PROGRESS has the last commit and its offsets."""

    def __init__(self, name: str, bucket: str, url: str) -> None:
        self._name, self._bucket = name, bucket
        self._url = f"sqlite:{Path(url[7:]).absolute()}" if url.startswith("sqlite:") else url
        with transaction(self._url) as database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {PROGRESS} "
                "(rollup text PRIMARY KEY, source text NOT NULL, number bigint NOT NULL, offsets text NOT NULL)"
            )

    def delivered(self, table: str) -> int:
        with transaction(self._url) as database:
            query = f"SELECT number FROM {PROGRESS} WHERE rollup = ? AND source = ?"
            found = database.execute(query, (self._name, table))
        return int(found[0][0]) if found else 0

    def deliver(self, delivery: Delivery) -> None:
        """Apply this commit to the table, once.

        1. Remove the staging tables of killed runs, and create one for this run.
        2. Each task inserts its rows, with the number of its attempt.
        3. One transaction deletes the old rows of the spans, inserts the rows of the attempts that Spark counts, and
           stores commit and offsets.
        """
        schema = delivery.rows.schema
        columns = {field.name: sql_type(field.name, field.dataType) for field in schema.fields}
        family = f"streamtopo_staging_{hashlib.sha256(self._name.encode()).hexdigest()[:8]}_"
        staging = family + uuid.uuid4().hex[:8]
        with transaction(self._url) as database:
            for left in database.tables():
                if left.startswith(family):
                    database.execute(f"DROP TABLE {quoted(left)}")
            database.execute(f"CREATE TABLE {quoted(staging)} ({_listed(columns | {'_attempt': 'bigint'})})")
            database.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self._name)} ({_listed(columns)})")
        attempts = delivery.rows.rdd.mapPartitions(_filling(self._url, staging, len(columns))).collect()
        with transaction(self._url) as database:
            self._clear(database, delivery)
            self._move(database, staging, list(columns), attempts)
            database.execute(f"DROP TABLE {quoted(staging)}")
            database.execute(f"DELETE FROM {PROGRESS} WHERE rollup = ?", (self._name,))
            note = (self._name, delivery.table, delivery.commit, delivery.offsets)
            database.execute(f"INSERT INTO {PROGRESS} VALUES (?, ?, ?, ?)", note)

    def _clear(self, database: Database, delivery: Delivery) -> None:
        if delivery.spans is None:
            database.execute(f"DELETE FROM {quoted(self._name)}")
        for start in delivery.spans or ():
            database.execute(f"DELETE FROM {quoted(self._name)} WHERE {quoted(self._bucket)} = ?", (start,))

    def _move(self, database: Database, staging: str, columns: list[str], attempts: list[int]) -> None:
        names = ", ".join(map(quoted, columns))
        moved = f"INSERT INTO {quoted(self._name)} ({names}) SELECT {names} FROM {quoted(staging)} WHERE _attempt = ?"
        for attempt in attempts:
            database.execute(moved, (attempt,))


def _filling(url: str, staging: str, width: int) -> Callable[[Iterable[Sequence[Any]]], Iterator[int]]:
    def fill(rows: Iterable[Sequence[Any]]) -> Iterator[int]:
        context = TaskContext.get()
        assert context is not None
        attempt, left = context.taskAttemptId(), iter(rows)
        insert = f"INSERT INTO {quoted(staging)} VALUES ({', '.join('?' * (width + 1))})"
        while portion := list(islice(left, ROWS)):
            with transaction(url) as database:
                database.execute_many(insert, [(*row, attempt) for row in portion])
        yield attempt

    return fill


def sql_type(name: str, kind: DataType) -> str:
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    if kind.simpleString() not in _TYPES:
        raise StreamtopoError(
            f"column {name} {kind.simpleString()} has no type in SQL; to_json({name}) converts it to text"
        )
    return _TYPES[kind.simpleString()]


def quoted(name: str) -> str:
    """The name as an SQL identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())


# -- two databases


class Database:
    """A connection with an open transaction; parameters are written as `?`."""

    def __init__(self, connection: Any, *, sqlite: bool) -> None:
        self._connection = connection
        self._sqlite = sqlite

    def execute(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        cursor = self._connection.execute(self._text(text), tuple(map(self._value, values)))
        return list(cursor.fetchall()) if cursor.description else []

    def execute_many(self, text: str, rows: Iterable[Sequence[Any]]) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.executemany(self._text(text), [tuple(map(self._value, row)) for row in rows])

    def tables(self) -> list[str]:
        here = "SELECT name FROM sqlite_master WHERE type = 'table'"
        there = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        query = here if self._sqlite else there
        return [name for (name,) in self.execute(query)]

    def _text(self, text: str) -> str:
        return text if self._sqlite else text.replace("%", "%%").replace("?", "%s")

    def _value(self, value: Any) -> Any:
        """Moments for SQLite: UTC text that its own functions read; Spark's are in the local time zone."""
        if isinstance(value, datetime):
            moment = value.astimezone(UTC)
            return moment.replace(tzinfo=None).isoformat(" ") if self._sqlite else moment
        return str(value) if self._sqlite and isinstance(value, date | Decimal) else value


@contextmanager
def transaction(url: str) -> Iterator[Database]:
    """A transaction: all of the block, or nothing."""
    is_sqlite = url.startswith("sqlite:")
    failures: tuple[type[Exception], ...] = (sqlite3.Error,) if is_sqlite else (_psycopg().Error,)
    try:
        with closing(sqlite3.connect(url[7:], timeout=60) if is_sqlite else _psycopg().connect(url)) as connection:
            if is_sqlite:
                connection.isolation_level = None
                connection.execute("BEGIN IMMEDIATE")
            yield Database(connection, sqlite=is_sqlite)
            connection.commit()
    except failures as error:
        said = str(error).strip()
        hidden = _without_parts_of(url, said)
        raise StreamtopoError(f"{shown_database(url)}: {hidden}") from (error if hidden == said else None)


def shown_database(url: str) -> str:
    return shown_url(url, has_path=url.startswith("sqlite:"))


def _psycopg() -> Any:
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise ConfigError(missing("postgresql://", "postgresql")) from error
    return psycopg


def _without_parts_of(url: str, said: str) -> str:
    """The message without passwords: drivers quote a malformed url, or part of a password that looks like a host."""
    shown = shown_database(url)
    said = said.replace(url, shown)
    hidden = set(_PARTS.findall(url)) - set(_PARTS.findall(shown))
    for part in sorted(hidden, key=len, reverse=True):
        said = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "***", said)
    return said
