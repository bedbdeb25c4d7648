"""Moves what was committed from the WAL into the database, beside the commits and not inside them."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, suppress

from streamtopo.logs.embedded.database import Database

EVERY = 16 << 20
"""Bytes this process writes between checkpoints."""
COMMIT = 160_000
"""Bytes that a small commit counts for beside its batches: several times what it adds to the WAL, for who commits in
small pieces waits for each, and is held up the longer, the more a checkpoint has to do."""
ATTEMPTS = 20
LONG = 0.02
"""Seconds after which a read is a long one."""


class Checkpoints:
    """One thread per process that writes, started when it is first needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written = 0
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def wrote(self, size: int) -> None:
        with self._lock:
            self._written += size + COMMIT
            if self._written < EVERY or self._closed:
                return
            self._written = 0
            self._due.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._called():
            # On a full disk, say, or with no descriptor left, the WAL keeps it, and the next one tries again.
            with suppress(sqlite3.Error), closing(self._database.connect()) as connection:
                checkpoint(connection)
                while self._called():
                    checkpoint(connection)

    def _called(self) -> bool:
        """Waits for it; false at the end, however often it is asked then."""
        self._due.wait()
        self._due.clear()
        if self._closed:
            self._due.set()
        return not self._closed


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Most of it without any lock; then, with writers held off for the little that came since, the WAL starts anew.

    Not while somebody reads for long, a backup say: nothing would come of it, and writers would wait again and again.
    """
    connection.execute("PRAGMA busy_timeout=20")
    if _held_back(connection):
        return False
    for _ in range(ATTEMPTS):
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        if not is_busy:
            return True
        time.sleep(0.001)
    return False


def _held_back(connection: sqlite3.Connection) -> bool:
    """Moves what can be moved; true if for as long as a short read takes that comes no further."""
    reached = -1
    for pause in (0.0, 0.0, LONG):
        time.sleep(pause)
        _, frames, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if moved == frames:
            return False
        held, reached = bool(moved == reached), moved
    return held
