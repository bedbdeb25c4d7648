"""Compaction: keeps the last record of each key, with its offset, and merges small batches into large ones."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator

from streamtopo.logs import CLEANING_MEMORY
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.batches import MOST_BYTES, MOST_ROWS, BatchView, merge
from streamtopo.logs.embedded.storage.checksums import StoredBatch
from streamtopo.logs.embedded.storage.database import WallClock, writing
from streamtopo.logs.embedded.storage.statements import BatchRow
from streamtopo.records import TopicPartition

A_KEY = 125
"""Bytes that a key and its offset use in a dict, in addition to the length of the key."""
LEAST = 1000
"""Records since the last compaction, at least, that make another one worthwhile."""
LOOK = 512
PARTS = 32
"""`tombstones_ms` is divided into this many parts; only the first cleaning in each part is remembered."""

Latest = dict[bytes | None, int]


def dirty(connection: sqlite3.Connection, topic: int, number: int, ratio: float, before: int) -> bool:
    """Whether the records since the last compaction are at least this part of all, or began before this time."""
    row = connection.execute(
        "SELECT next_offset - max(compacted, start_offset), records FROM partitions WHERE topic = ? AND partition = ?",
        (topic, number),
    ).fetchone()
    if row is None or not row[0]:
        return False
    if row[0] >= LEAST and row[0] >= ratio * row[1]:
        return True
    since = statements.not_compacted_since(connection, topic, number)
    return since is not None and since < before


def compaction(
    connection: sqlite3.Connection,
    topic: int,
    source: TopicPartition,
    now: WallClock,
    tombstones_ms: int,
    memory: int = CLEANING_MEMORY,
) -> Iterator[int]:
    """Compact a partition; stop at each `yield`, which gives the number of bytes written.

    It handles as many keys as fit into the memory; the records after those wait for the next compaction.

    It may be stopped anywhere, and two processes may do it at once: it only removes old records.

    A tombstone stays for `tombstones_ms` after the cleaning that removed the record it deletes, as in Kafka since
    KIP-534: a reader of that record also reads the tombstone, if it does not take longer than that to get there.
    """
    number = source.partition
    with writing(connection):
        tombstones_before = statements.cleaned_before(connection, topic, number, now() - tombstones_ms)
    latest: Latest = {}
    end = 0
    for reached in _last_of_each_key(connection, topic, source, latest, memory):
        end = reached
        yield 0
    clean = True
    for batches in _groups(connection, topic, source, end):
        clean &= _rewrite(connection, topic, source, batches, (latest, tombstones_before))
        yield sum(batch.size for batch in batches)
    if clean:
        with writing(connection):
            statements.note_cleaning(connection, topic, number, end, now(), tombstones_ms / PARTS)


def _last_of_each_key(
    connection: sqlite3.Connection, topic: int, source: TopicPartition, latest: Latest, memory: int
) -> Iterator[int]:
    """Fill `latest` with the keys since the last compaction; yield the offset that was reached."""
    # Records that are written from now on are for the next time: otherwise a fast writer could keep this busy forever.
    offset, end = connection.execute(
        "SELECT max(compacted, start_offset), next_offset FROM partitions WHERE topic = ? AND partition = ?",
        (topic, source.partition),
    ).fetchone() or (0, 0)
    yield offset
    rows = size = 0
    while offset < end and (blobs := _next(connection, topic, source, offset)):
        for blob in blobs:
            run = BatchView.open(blob, source).since(offset)
            latest.update(zip(run.keys(), run.offsets, strict=True))
            offset = run.offsets[-1] + 1
            rows += len(run)
            size += run.key_bytes
        yield offset
        if len(latest) * (A_KEY + size / rows) > memory:
            break
    # A record without a key replaces no other.
    latest.pop(None, None)


def _next(connection: sqlite3.Connection, topic: int, source: TopicPartition, offset: int) -> list[StoredBatch]:
    return statements.find(connection, topic, source, offset, MOST_ROWS, MOST_BYTES).blobs


def _groups(connection: sqlite3.Connection, topic: int, source: TopicPartition, end: int) -> Iterator[list[BatchRow]]:
    """Consecutive batches before `end` that together make about one full batch."""
    offset = 0
    group: list[BatchRow] = []
    while batches := statements.stored(connection, topic, source, offset, LOOK):
        for batch in batches:
            if batch.last >= end:
                batches = []
                break
            fits = sum(b.size for b in group) + batch.size <= MOST_BYTES
            if group and not (fits and sum(b.rows for b in group) + batch.rows <= MOST_ROWS):
                yield group
                group = []
            group.append(batch)
        if not batches:
            break
        offset = batches[-1].last + 1
    if group:
        yield group


def _rewrite(
    connection: sqlite3.Connection,
    topic: int,
    source: TopicPartition,
    batches: list[BatchRow],
    rule: tuple[Latest, int],
) -> bool:
    """False if the batches have changed: another process has deleted or compacted some of them."""
    blobs = statements.data(connection, topic, source, batches[0].last, batches[-1].last)
    runs = [BatchView.open(blob, source) for blob in blobs]
    if [len(run) for run in runs] != [batch.rows for batch in batches]:
        return False
    masks = [_kept(run, *rule) for run in runs]
    if len(runs) == 1 and all(masks[0]):
        return True
    merged = merge(runs, masks)
    with writing(connection):
        return statements.replace(connection, topic, source, batches, merged)


def _kept(run: BatchView, latest: Latest, tombstones_before: int) -> list[bool]:
    kept = [latest.get(key, 0) <= offset for key, offset in zip(run.keys(), run.offsets, strict=True)]
    dead = run.tombstones()
    if dead is None:
        return kept
    before = bisect_left(run.offsets, tombstones_before)
    return [keep and not tombstone for keep, tombstone in zip(kept[:before], dead, strict=False)] + kept[before:]
