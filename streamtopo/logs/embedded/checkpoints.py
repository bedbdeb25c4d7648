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
        with suppress(sqlite3.Error), closing(self._database.connect()) as connection:
            while True:
                self._due.wait()
                if self._closed:
                    return
                self._due.clear()
                with suppress(sqlite3.Error):  # a full disk, say: the WAL keeps it, and the next one tries again
                    checkpoint(connection)


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Most of it without any lock; then, with writers held off for the little that came since, the WAL starts anew."""
    connection.execute("PRAGMA busy_timeout=20")
    for _ in range(2):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    for _ in range(ATTEMPTS):
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        if not is_busy:
            return True
        time.sleep(0.001)
    return False
