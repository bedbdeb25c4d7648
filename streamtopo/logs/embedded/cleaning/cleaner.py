"""Retention, compaction, and the return of free pages, in slices so short that no commit waits for long."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import NamedTuple

from streamtopo.errors import LogDamaged, LogError
from streamtopo.logs import CLEANING_MEMORY, Topic
from streamtopo.logs.embedded.cleaning.compaction import compaction, dirty
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.checkpoints import Checkpoints
from streamtopo.logs.embedded.storage.database import Database, WallClock, busy, full, writing
from streamtopo.records import TopicPartition

logger = logging.getLogger("streamtopo")

PAUSE_MS = 1000
"""Between the end of a pass over the whole log and the start of the next one."""
LOOK = 256
"""Batches of which one slice checks the age."""
FREE_PAGES = 2048
"""Free pages, in addition to a quarter of all, that the file may keep. More are returned, this many at a time:"""
PAGES, PAGE_SIZE = 64, 8192
_FREED = 64 << 10
"""Bytes that a deletion writes, at most: deleted batches are only marked as free."""

DAY_MS = 86_400_000


class Policy(NamedTuple):
    """The config of a topic, with Kafka's names. Ages count from the append, not from the timestamp of the record.

    So a topic that is replayed with the timestamps of last year is not a year old.
    """

    retention_ms: int
    retention_bytes: int
    compacted: bool
    tombstones_ms: int
    dirty: float
    lag_ms: int

    @classmethod
    def of(cls, topic: Topic) -> Policy:
        policy = topic.config.get("cleanup.policy", "delete")
        deleting = "delete" in policy
        try:
            return cls(
                int(topic.config.get("retention.ms", -1)) if deleting else -1,
                int(topic.config.get("retention.bytes", -1)) if deleting else -1,
                "compact" in policy,
                int(topic.config.get("delete.retention.ms", DAY_MS)),
                float(topic.config.get("min.cleanable.dirty.ratio", 0.5)),
                int(topic.config.get("max.compaction.lag.ms", DAY_MS)),
            )
        except ValueError as error:
            raise LogError(
                f'the config of topic "{topic.name}" has a value that is not a number: {error}; give times in '
                "milliseconds"
            ) from error


class Cleaner:
    """One process cleans at a time: it holds a lock until its pass has ended."""

    def __init__(self, database: Database, checkpoints: Checkpoints, now: WallClock) -> None:
        self._database = database
        self._checkpoints = checkpoints
        self._now = now
        self._one_thread = threading.Lock()
        self._pass: Iterator[int] | None = None
        self._ended = 0
        self._file = -1
        self._damaged: set[TopicPartition] = set()
        self._memory = CLEANING_MEMORY

    def clean(self, slice_ms: float, memory: int) -> bool:
        if not self._one_thread.acquire(blocking=False):
            return False
        try:
            self._memory = memory
            with self._database.explained():
                return self._begun() and self._go_on(time.monotonic() + slice_ms / 1000)
        finally:
            self._one_thread.release()

    def compact(self, partition: TopicPartition) -> None:
        with self._database.explained(), closing(self._connect()) as connection:
            topic, _, end = statements.extent(connection, partition)
            policy, compacted = Policy.of(statements.topics(connection)[partition.topic][1]), -1
            while compacted < end:  # as many keys at a time as fit into the memory
                for written in compaction(connection, topic, partition, self._now, policy.tombstones_ms, self._memory):
                    self._wrote(written)
                compacted = statements.compacted_until(connection, topic, partition.partition)

    def wipe(self) -> None:
        """Write the file again, without the bytes of deleted records. Meanwhile, others can read, but not write."""
        with self._database.explained(), closing(self._connect()) as connection:
            connection.execute("VACUUM")
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise LogError(f'"{self._database.file}-wal" still has old bytes, because someone reads the log; try again')

    def close(self) -> None:
        with self._one_thread:
            self._end()

    def _begun(self) -> bool:
        if self._pass is not None:
            return True
        if abs(self._now() - self._ended) < PAUSE_MS:
            return False
        self._file = os.open(self._database.directory / "clean.lock", os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._end()
            return False
        self._pass = self._everything()
        return True

    def _go_on(self, deadline: float) -> bool:
        assert self._pass is not None
        unfinished = False
        try:
            for written in self._pass:
                self._wrote(written)
                if time.monotonic() > deadline:
                    unfinished = True
                    break
        except sqlite3.Error as error:
            # What cannot be cleaned now is cleaned later: a full disk must not stop readers.
            if not (full(error) or busy(error)):
                raise
        finally:
            if not unfinished:
                self._end()
        return unfinished

    def _end(self) -> None:
        self._pass = None
        self._ended = self._now()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _connect(self) -> sqlite3.Connection:
        connection = self._database.connect()
        # Cleaning needs no fsync: after a power cut it is repeated, and the next commit syncs it anyway.
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    def _wrote(self, size: int) -> None:
        """Count it for the next checkpoint: without commits, there would be none."""
        if size:
            self._checkpoints.wrote(size)

    # -- a pass: it may stop at each `yield`, which says how many bytes were written, about

    def _everything(self) -> Iterator[int]:
        with closing(self._connect()) as connection:
            for (id,) in connection.execute("SELECT id FROM deleted_topics").fetchall():
                yield from _deleted(connection, partial(statements.delete_batches_of, connection, id))
            for id, topic in statements.topics(connection).values():
                for number in range(topic.partitions):
                    yield from self._partition(connection, id, TopicPartition(topic.name, number), Policy.of(topic))
            for id, number in statements.partitions_to_trim(connection):
                yield from _deleted(connection, partial(statements.delete_before_start, connection, id, number))
            yield from _shrink(connection)

    def _partition(
        self, connection: sqlite3.Connection, topic: int, source: TopicPartition, policy: Policy
    ) -> Iterator[int]:
        if source in self._damaged:
            return
        try:
            if policy.retention_ms >= 0 or policy.retention_bytes >= 0:
                yield from self._retention(connection, topic, source, policy)
            before = self._now() - policy.lag_ms
            if policy.compacted and dirty(connection, topic, source.partition, policy.dirty, before):
                yield from compaction(connection, topic, source, self._now, policy.tombstones_ms, self._memory)
        except LogDamaged as error:
            # Readers of the partition get the error, others can continue. Damaged data is not changed.
            self._damaged.add(source)
            logger.warning("%s is not cleaned any more: %s", source, error)

    def _retention(
        self, connection: sqlite3.Connection, topic: int, source: TopicPartition, policy: Policy
    ) -> Iterator[int]:
        """Move the start after batches that are too old or too many; only whole batches."""
        oldest = self._now() - policy.retention_ms if policy.retention_ms >= 0 else float("-inf")
        most = policy.retention_bytes if policy.retention_bytes >= 0 else float("inf")
        size = statements.size(connection, topic, source.partition)
        start, enough = 0, False
        while not enough and (batches := statements.stored(connection, topic, source, start, LOOK)):
            for batch in batches:
                enough = batch.appended >= oldest and size <= most
                if enough:
                    break
                size -= batch.size
                start = batch.last + 1
            if start:
                with writing(connection):
                    statements.move_start(connection, topic, source.partition, start)
            yield 0


def _deleted(connection: sqlite3.Connection, delete: Callable[[], bool]) -> Iterator[int]:
    more = True
    while more:
        with writing(connection):
            more = delete()
        yield _FREED


def _shrink(connection: sqlite3.Connection) -> Iterator[int]:
    while True:
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if free <= FREE_PAGES + pages // 4:
            return
        connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
        yield PAGES * PAGE_SIZE
