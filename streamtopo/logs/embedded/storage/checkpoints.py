"""Moves what was committed from the WAL into the database, in the background and not in commits."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, suppress

from streamtopo.logs.embedded.storage.database import Database

EVERY = 16 << 20
"""Bytes that this process writes between two checkpoints."""
COMMIT = 160_000
"""Bytes that each commit counts for, in addition to its batches. It is several times what a commit adds to the WAL:
programs with small commits wait for each of them, and a large checkpoint delays them longer."""
ATTEMPTS = 20
LONG = 0.02
"""Seconds after which a read counts as long."""


class Checkpoints:
    """One thread for each process that writes, started when it is first needed."""

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
            # If it fails (a full disk, no file descriptor left), the WAL keeps the data, and the next one tries again.
            with suppress(sqlite3.Error), closing(self._database.connect()) as connection:
                checkpoint(connection)
                while self._called():
                    checkpoint(connection)

    def _called(self) -> bool:
        """Wait until a checkpoint is due; False after `close`, from then on at once."""
        self._due.wait()
        self._due.clear()
        if self._closed:
            self._due.set()
        return not self._closed


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Move most of it without a lock. Then writers wait while the rest is moved and the WAL starts from its beginning.

    Not during a long read, such as a backup: it would achieve nothing, and writers would wait each time.
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
    """Move what can be moved; True if that makes no progress for longer than a short read takes."""
    reached = -1
    for pause in (0.0, 0.0, LONG):
        time.sleep(pause)
        _, frames, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if moved == frames:
            return False
        held, reached = bool(moved == reached), moved
    return held
