"""Compaction: of each key the last record stays, with its offset; small batches become large ones on the way."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator

from streamtopo.logs import CLEANING_MEMORY
from streamtopo.logs.embedded import storage
from streamtopo.logs.embedded.batches import MOST_BYTES, MOST_ROWS, Run, merge
from streamtopo.logs.embedded.checksums import Blob
from streamtopo.logs.embedded.database import Now, writing
from streamtopo.logs.embedded.storage import Stored
from streamtopo.records import TopicPartition

A_KEY = 125
"""Bytes that a key takes in a dict with its offset, in addition to its own length."""
LEAST = 1000
"""Records that must have come since the last compaction to make another one worth it."""
LOOK = 512
PARTS = 32
"""Parts of the tombstones' time: of the cleanings within one of them the first is remembered."""

Latest = dict[bytes | None, int]


def dirty(connection: sqlite3.Connection, topic: int, number: int, ratio: float) -> bool:
    """Whether the records that came since the last compaction are so large a part of all."""
    row = connection.execute(
        "SELECT next_offset - max(compacted, start_offset), records FROM partitions WHERE topic = ? AND partition = ?",
        (topic, number),
    ).fetchone()
    return row is not None and row[0] >= LEAST and row[0] >= ratio * row[1]


def compaction(
    connection: sqlite3.Connection,
    topic: int,
    source: TopicPartition,
    now: Now,
    tombstones_ms: int,
    memory: int = CLEANING_MEMORY,
) -> Iterator[int]:
    """Stops at each `yield`, of the bytes it wrote.

    It looks for old records of as many keys as fit into the memory; the records after those wait for the next one.

    It may be broken off anywhere, and be done by two at once: it only removes what is old.

    A tombstone stays for `tombstones_ms` after a cleaning that removed what it deletes, as in Kafka since KIP-534:
    whoever has read that meets the tombstone if reading the rest takes no longer.
    """
    number = source.partition
    with writing(connection):
        tombstones_before = storage.cleaned_before(connection, topic, number, now() - tombstones_ms)
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
            storage.note_cleaning(connection, topic, number, end, now(), tombstones_ms / PARTS)


def _last_of_each_key(
    connection: sqlite3.Connection, topic: int, source: TopicPartition, latest: Latest, memory: int
) -> Iterator[int]:
    """Fills `latest` with what came since the last compaction; yields the offset it has come to."""
    # What is written from now on is for the next time: else a fast writer would keep this one busy for ever.
    offset, end = connection.execute(
        "SELECT max(compacted, start_offset), next_offset FROM partitions WHERE topic = ? AND partition = ?",
        (topic, source.partition),
    ).fetchone() or (0, 0)
    yield offset
    rows = size = 0
    while offset < end and (blobs := _next(connection, topic, source, offset)):
        for blob in blobs:
            run = Run.open(blob, source).since(offset)
            latest.update(zip(run.keys(), run.offsets, strict=True))
            offset = run.offsets[-1] + 1
            rows += len(run)
            size += run.key_bytes
        yield offset
        if len(latest) * (A_KEY + size / rows) > memory:
            break
    # A record without a key replaces no other.
    latest.pop(None, None)


def _next(connection: sqlite3.Connection, topic: int, source: TopicPartition, offset: int) -> list[Blob]:
    return storage.find(connection, topic, source, offset, MOST_ROWS, MOST_BYTES).blobs


def _groups(connection: sqlite3.Connection, topic: int, source: TopicPartition, end: int) -> Iterator[list[Stored]]:
    """Neighbouring batches before `end` that together make about one full batch."""
    offset = 0
    group: list[Stored] = []
    while batches := storage.stored(connection, topic, source, offset, LOOK):
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
    batches: list[Stored],
    rule: tuple[Latest, int],
) -> bool:
    """False if the batches are not what they were: somebody else has deleted, or cleaned, some of them."""
    blobs = storage.data(connection, topic, source, batches[0].last, batches[-1].last)
    runs = [Run.open(blob, source) for blob in blobs]
    if [len(run) for run in runs] != [batch.rows for batch in batches]:
        return False
    masks = [_kept(run, *rule) for run in runs]
    if len(runs) == 1 and all(masks[0]):
        return True
    merged = merge(runs, masks)
    with writing(connection):
        return storage.replace(connection, topic, source, batches, merged)


def _kept(run: Run, latest: Latest, tombstones_before: int) -> list[bool]:
    kept = [latest.get(key, 0) <= offset for key, offset in zip(run.keys(), run.offsets, strict=True)]
    dead = run.tombstones()
    if dead is None:
        return kept
    before = bisect_left(run.offsets, tombstones_before)
    return [keep and not tombstone for keep, tombstone in zip(kept[:before], dead, strict=False)] + kept[before:]
