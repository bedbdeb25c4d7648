"""The SQLite database of a log: its tables, connections, transactions and errors."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from streamtopo.errors import LogDamaged, LogError
from streamtopo.logs.embedded.storage import checksums
from streamtopo.logs.embedded.storage.directory import prepare

VERSION = 3
PATIENCE = 10.0
"""Seconds to wait for the transaction of another process."""

# In `batches`, `data` comes last so that the other columns are read without it.
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE notes (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL, config TEXT NOT NULL
);
CREATE TABLE deleted_topics (id INTEGER PRIMARY KEY);
CREATE TABLE partitions (
    topic INTEGER, partition INTEGER, start_offset INTEGER NOT NULL DEFAULT 0, next_offset INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, compacted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE batches (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, base_offset INTEGER NOT NULL, last_offset INTEGER NOT NULL,
    count INTEGER NOT NULL, min_timestamp INTEGER NOT NULL, max_timestamp INTEGER NOT NULL, appended INTEGER NOT NULL,
    bytes INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE UNIQUE INDEX batches_by_offset ON batches (topic, partition, last_offset);
CREATE TABLE positions (
    group_name TEXT, topic INTEGER, partition INTEGER, next_offset INTEGER NOT NULL, metadata TEXT NOT NULL,
    PRIMARY KEY (group_name, topic, partition)
) WITHOUT ROWID;
CREATE TABLE members (id TEXT PRIMARY KEY, group_name TEXT NOT NULL, topics TEXT NOT NULL, pid INTEGER NOT NULL);
CREATE TABLE owners (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT, group_name TEXT NOT NULL, topic INTEGER NOT NULL,
    partition INTEGER NOT NULL, member TEXT NOT NULL, UNIQUE (group_name, topic, partition)
);
CREATE INDEX owners_by_member ON owners (member);
"""
_SINCE_2 = """
CREATE TABLE cleanings (
    topic INTEGER, partition INTEGER, before_offset INTEGER, at INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, before_offset)
) WITHOUT ROWID
"""
STEPS = (_TABLES.split(";"), [_SINCE_2], list(checksums.sealing()))
"""Each upgrades the tables from one version to the next."""


class Database:
    """The connections of one process to one log. One thread at a time uses a connection."""

    def __init__(self, directory: Path, synchronous: str, *, checked: bool = True) -> None:
        self.directory = directory.absolute()
        self.file = self.directory / "log.db"
        self._synchronous = synchronous
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        prepare(self.directory)
        with self.explained():
            self._create()
            if checked:
                self._check()

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            # `checkpoints.py` runs the checkpoints, outside of commits.
            for setting in (
                f"synchronous={self._synchronous}",
                "wal_autocheckpoint=0",
                "journal_size_limit=67108864",
                "secure_delete=OFF",
                "cache_size=-8000",
                "trusted_schema=ON",  # without it some builds of SQLite forbid triggers to call our functions
            ):
                connection.execute(f"PRAGMA {setting}")
            connection.create_function("seal", -1, checksums.seal, deterministic=True)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread until the end of the block; errors of the database become LogErrors."""
        with self.explained():
            with self._lock:
                if self._closed:
                    raise LogError(f'the log at "{self.directory}" is closed; open it again')
                connection = self._idle.pop() if self._idle else None
            connection = connection or self.connect()
            try:
                yield connection
            finally:
                self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self._closed or connection.in_transaction:
                connection.close()
            else:
                self._idle.append(connection)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.directory) from error
        except UnicodeDecodeError as error:
            raise LogDamaged(f'the log at "{self.directory}": a text in log.db is damaged; {_WHAT_TO_DO}') from error
        except OSError as error:
            raise LogError(
                f'the log at "{self.directory}": {error.strerror} ({error.filename}); fix that, and run the same '
                "command again"
            ) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def _create(self) -> None:
        """Create or upgrade the tables. Several processes may do so at the same time."""
        connection = self.connect()
        try:
            if _version(connection) < VERSION:
                with exclusive(self.directory / "create.lock"):
                    # Settings of the file, not of a connection: on an existing file `auto_vacuum` would write to it.
                    for setting in ("page_size=8192", "auto_vacuum=INCREMENTAL", "journal_mode=WAL"):
                        connection.execute(f"PRAGMA {setting}")
                    with writing(connection):
                        if (version := _version(connection)) < VERSION:
                            _bring_up(connection, version)
            if _version(connection) > VERSION:
                raise LogError(
                    f'the log at "{self.directory}" was written by a newer streamtopo (format {_version(connection)}; '
                    f"this version can read up to {VERSION}); upgrade streamtopo"
                )
        finally:
            connection.close()

    def _check(self) -> None:
        """Check the small tables, which are read all the time. Batches are checked when they are read."""
        with closing(self.connect()) as connection:
            for damage in checksums.damages(connection):
                raise LogDamaged(
                    f'the log at "{self.directory}" is damaged: {damage}, in log.db; {_WHAT_TO_DO}; '
                    "streamtopo topics verify lists all damage"
                )


def _bring_up(connection: sqlite3.Connection, version: int) -> None:
    """Upgrade an empty file, or the tables of an earlier version."""
    for step in STEPS[version:]:
        for statement in step:
            connection.execute(statement)
    if version < 1:
        connection.execute("INSERT INTO meta (name, value) VALUES ('id', ?), ('generation', 0)", (uuid.uuid4().hex,))
    connection.execute(f"PRAGMA user_version={VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


# -- transactions


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all that is written in the block, or nothing."""
    begin(connection)
    try:
        yield
        _commit(connection)
    except BaseException:
        roll_back(connection)
        raise


class InDoubt(sqlite3.OperationalError):
    """COMMIT raised an error, after which the transaction may or may not have happened."""


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if full(error) or busy(error):
            raise
        doubt = InDoubt(str(error))
        doubt.sqlite_errorname = name_of(error)
        raise doubt from error


def begin(connection: sqlite3.Connection) -> None:
    """Take the write lock. We wait ourselves, as SQLite would sleep longer than most transactions last."""
    deadline = time.monotonic() + PATIENCE
    pause = 0.0001
    connection.execute("PRAGMA busy_timeout=0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(pause)
            pause = min(pause * 1.1, 0.002)
    finally:
        connection.execute(f"PRAGMA busy_timeout={int(PATIENCE * 1000)}")


def roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """All statements in the block see the same state of the log."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """One process at a time; the kernel frees the lock if the process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- errors


def busy(error: sqlite3.Error) -> bool:
    return name_of(error).startswith("SQLITE_BUSY")


def full(error: sqlite3.Error) -> bool:
    return name_of(error) in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")


def name_of(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")


_WHAT_TO_DO = "restore a copy, or move the directory away and start again with an empty log"
_EXPLANATIONS: list[tuple[str, str]] = [
    ("SQLITE_BUSY", "another process has been writing for too long; look for a stopped process (ps shows state T)"),
    ("SQLITE_FULL", "the disk is full; free some space, and run the same command again: nothing is lost"),
    ("SQLITE_IOERR_SHMSIZE", "the disk is full; free some space, and run the same command again: nothing is lost"),
    ("SQLITE_READONLY", "it cannot be written to; check the permissions of the directory and its files"),
    ("SQLITE_CANTOPEN", "it cannot be opened; check the permissions of the directory and its files"),
    ("SQLITE_NOTADB", f"log.db is not a database, or is damaged; {_WHAT_TO_DO}"),
    ("SQLITE_CORRUPT", f"log.db is damaged; {_WHAT_TO_DO}"),
    ("SQLITE_CONSTRAINT_TRIGGER", f"log.db is damaged; {_WHAT_TO_DO}"),
    (
        "SQLITE_ERROR",
        f"a newer streamtopo or another program has changed its tables, or they are damaged; upgrade, or {_WHAT_TO_DO}",
    ),
    ("SQLITE_TOOBIG", "a record is too large; the limit is a gigabyte"),
    ("SQLITE_IOERR", "the disk failed; see the log of the system, fix the disk, and run the same command again"),
]


def explain(error: sqlite3.Error, directory: Path) -> LogError:
    name = name_of(error)
    if "Could not decode to UTF-8" in str(error):  # raised by Python, without a name
        name = "SQLITE_CORRUPT"
    what = next((text for prefix, text in _EXPLANATIONS if name.startswith(prefix)), "")
    return LogError(f'the log at "{directory}": {what or "unexpected"} ({name or type(error).__name__}: {error})')


WallClock = Callable[[], int]
