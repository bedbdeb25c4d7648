"""SQL statements about topics, partitions and batches. They run in the transaction of the caller."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs import Cleaned, Topic
from streamtopo.logs.embedded.storage.batches import EncodedBatch
from streamtopo.logs.embedded.storage.checksums import FACTS, WHOLE, StoredBatch, check_whole, checksum, damaged
from streamtopo.logs.topics import check_equal, check_new
from streamtopo.records import TopicPartition

DELETED_AT_ONCE, DELETED_BYTES_AT_ONCE = 64, 4 << 20
"""One transaction deletes at most this many batches, and stops at the batch that reaches this many bytes."""


class PartitionExtent(NamedTuple):
    """The start and end of a partition, and the current id of its topic."""

    topic: int
    start: int
    end: int


class FoundBatches(NamedTuple):
    blobs: list[StoredBatch]
    exhausted: bool
    """No batch is stored after these."""


# -- topics


def topics(connection: sqlite3.Connection) -> dict[str, tuple[int, Topic]]:
    rows = connection.execute("SELECT name, id, partitions, config FROM topics ORDER BY name").fetchall()
    return {name: (id, Topic(name, partitions, json.loads(config), str(id))) for name, id, partitions, config in rows}


def topic(connection: sqlite3.Connection, name: str) -> tuple[int, Topic]:
    row = connection.execute("SELECT id, partitions, config FROM topics WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise LogError(f'topic "{name}" does not exist; create it first')
    return row[0], Topic(name, row[1], json.loads(row[2]), str(row[0]))


def create(connection: sqlite3.Connection, topic: Topic) -> None:
    existing = topics(connection).get(topic.name)
    if existing is not None:
        check_equal(existing[1], topic)
        return
    check_new(topic)
    added = connection.execute(
        "INSERT INTO topics (name, partitions, config) VALUES (?, ?, ?)",
        (topic.name, topic.partitions, json.dumps(dict(topic.config))),
    )
    numbers = ((added.lastrowid, number) for number in range(topic.partitions))
    connection.executemany("INSERT INTO partitions (topic, partition) VALUES (?, ?)", numbers)
    bump_generation(connection)


def delete(connection: sqlite3.Connection, name: str) -> int:
    """Delete all but the batches, which `delete_batches_of` deletes bit by bit; return the id of the topic."""
    row = connection.execute("SELECT id FROM topics WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise LogError(
            f'topic "{name}" does not exist, so it cannot be deleted; list the topics: streamtopo topics list'
        )
    connection.execute("DELETE FROM topics WHERE id = ?", row)
    for table in ("partitions", "positions", "owners", "cleanings"):
        connection.execute(f"DELETE FROM {table} WHERE topic = ?", row)
    connection.execute("INSERT INTO deleted_topics (id) VALUES (?)", row)
    bump_generation(connection)
    return int(row[0])


def bump_generation(connection: sqlite3.Connection) -> None:
    """Make members read the tables of topics, members and owners again."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'generation'")


def generation(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT value FROM meta WHERE name = 'generation'").fetchone()[0])


# -- records


def extent(connection: sqlite3.Connection, partition: TopicPartition) -> PartitionExtent:
    row = connection.execute(
        "SELECT p.topic, p.start_offset, p.next_offset FROM topics t JOIN partitions p ON p.topic = t.id "
        "WHERE t.name = ? AND p.partition = ?",
        partition,
    ).fetchone()
    if row is None:
        raise LogError(f"partition {partition} does not exist; create the topic first")
    return PartitionExtent(*row)


def append(connection: sqlite3.Connection, target: TopicPartition, batches: Iterable[EncodedBatch], now: int) -> int:
    """Return the next offset."""
    topic, _, end = extent(connection, target)
    start, size = end, 0
    for batch in batches:
        _insert(connection, (topic, target.partition, end, end + batch.rows - 1), batch, now)
        end += batch.rows
        size += batch.size
    connection.execute(
        "UPDATE partitions SET next_offset = ?, records = records + ?, bytes = bytes + ? "
        "WHERE topic = ? AND partition = ?",
        (end, end - start, size, topic, target.partition),
    )
    return end


def _insert(
    connection: sqlite3.Connection, place: tuple[int, int, int, int], batch: EncodedBatch, appended: int
) -> None:
    facts = (*place, batch.rows, batch.min_timestamp, batch.max_timestamp, appended, batch.size)
    connection.execute(
        f"INSERT INTO batches ({FACTS}, data, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*facts, batch.data, checksum(facts, batch.data)),
    )


def find(
    connection: sqlite3.Connection, topic: int, source: TopicPartition, offset: int, limit: int, most_bytes: float
) -> FoundBatches:
    """The batches of the next `limit` records, still encoded; fewer if they reach `most_bytes`."""
    cursor = connection.execute(
        f"SELECT {WHOLE} FROM batches WHERE topic = ? AND partition = ? AND last_offset >= ? ORDER BY last_offset",
        (topic, source.partition, offset),
    )
    blobs, rows, size = [], 0, 0
    try:
        for row in cursor:
            check_whole(row[:9], source)
            blobs.append(blob := StoredBatch(*row))
            size += len(blob.data)
            if blob.base >= offset:
                rows += blob.rows
            elif blob.rows == blob.last - blob.base + 1:
                rows += blob.last - offset + 1
            if rows >= limit or size >= most_bytes:
                return FoundBatches(blobs, exhausted=False)
        return FoundBatches(blobs, exhausted=True)
    finally:
        cursor.close()


def gaps(found: FoundBatches, offset: int, end: int) -> list[tuple[int, int]]:
    """Ranges of offsets, from this one up to the end of what was found, that are in no batch."""
    starts = [offset, *(blob.last + 1 for blob in found.blobs)]
    stops = [blob.base for blob in found.blobs] + ([end] if found.exhausted else [])
    return [(start, stop) for start, stop in zip(starts, stops, strict=False) if start < stop]


def check_gaps(
    connection: sqlite3.Connection, source: TopicPartition, known: PartitionExtent, offset: int, found: FoundBatches
) -> None:
    """Compaction leaves gaps. In a topic that was never compacted, a gap is a batch that the index has lost."""
    missing = gaps(found, offset, known.end)
    if not missing:
        return
    start, stop = missing[0]
    if compacted(connection, known.topic, source.partition):
        if start > offset:
            return
        stop = 1 + _last_before(connection, known.topic, source.partition, stop)
    if start < stop:
        raise damaged(source, start, stop - 1, "the database does not find them")


def _last_before(connection: sqlite3.Connection, topic: int, partition: int, stop: int) -> int:
    """The last offset of the batch before `stop`; if the index is damaged, the search may have skipped that batch.

    The index says the same as in the search; the table has the offset a second time.
    """
    row = connection.execute(
        "SELECT stored.last_offset FROM batches found JOIN batches stored ON stored.rowid = found.rowid "
        "WHERE found.topic = ? AND found.partition = ? AND found.last_offset < ? "
        "ORDER BY found.last_offset DESC LIMIT 1",
        (topic, partition, stop),
    ).fetchone()
    return -1 if row is None else int(row[0])


def compacted(connection: sqlite3.Connection, topic: int, partition: int) -> bool:
    row = connection.execute(
        "SELECT p.compacted, t.config FROM partitions p JOIN topics t ON t.id = p.topic "
        "WHERE p.topic = ? AND p.partition = ?",
        (topic, partition),
    ).fetchone()
    return row is None or row[0] > 0 or "compact" in json.loads(row[1]).get("cleanup.policy", "")


def not_before(
    connection: sqlite3.Connection, known: PartitionExtent, source: TopicPartition, timestamp: int
) -> list[StoredBatch]:
    """The first two batches with a record of this time or later: in the first one that record may be deleted."""
    rows = connection.execute(
        f"SELECT {WHOLE} FROM batches "
        "WHERE topic = ? AND partition = ? AND last_offset >= ? AND max_timestamp >= ? ORDER BY last_offset LIMIT 2",
        (known.topic, source.partition, known.start, timestamp),
    )
    return _blobs(rows.fetchall(), source)


def _blobs(rows: list[Any], source: TopicPartition) -> list[StoredBatch]:
    for row in rows:
        check_whole(row[:9], source)
    return [StoredBatch(*row) for row in rows]


class OutsideLog(LogError):
    """There are no records at this offset any more, or not yet."""


def check_inside(source: TopicPartition, offset: int, known: PartitionExtent) -> None:
    if not known.start <= offset <= known.end:
        raise OutsideLog(
            f"offset {offset} of {source} is not in the log (it has {known.start} to {known.end}); "
            "reset the group's position to one of these (streamtopo reset)"
        )


# -- deletion


def move_start(connection: sqlite3.Connection, topic: int, partition: int, offset: int) -> None:
    connection.execute(
        "UPDATE partitions SET start_offset = min(max(start_offset, ?), next_offset) WHERE topic = ? AND partition = ?",
        (offset, topic, partition),
    )


def delete_before_start(connection: sqlite3.Connection, topic: int, partition: int) -> bool:
    """Delete some batches before the start of the partition; True if there may be more."""
    return _remove(
        connection,
        "topic = ? AND partition = ? AND last_offset < "
        "(SELECT start_offset FROM partitions p WHERE p.topic = batches.topic AND p.partition = batches.partition)",
        (topic, partition),
    )


def partitions_to_trim(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """The topic and number of each partition that has batches before its start."""
    return connection.execute(
        "SELECT topic, partition FROM partitions p WHERE start_offset > 0 AND EXISTS (SELECT 1 FROM batches b "
        "WHERE b.topic = p.topic AND b.partition = p.partition AND b.last_offset < p.start_offset)"
    ).fetchall()


def delete_batches_of(connection: sqlite3.Connection, topic: int) -> bool:
    """Delete some batches of a deleted topic; True if there may be more."""
    if _remove(connection, "topic = ?", (topic,)):
        return True
    connection.execute("DELETE FROM deleted_topics WHERE id = ?", (topic,))
    return False


def _remove(connection: sqlite3.Connection, which: str, values: tuple[int, ...]) -> bool:
    rows = connection.execute(
        f"SELECT rowid, topic, partition, count, bytes FROM batches WHERE {which} LIMIT {DELETED_AT_ONCE}", values
    ).fetchall()
    sizes = accumulate((size for *_, size in rows), initial=0)
    removed = [row for row, before in zip(rows, sizes, strict=False) if before < DELETED_BYTES_AT_ONCE]
    connection.executemany("DELETE FROM batches WHERE rowid = ?", [row[:1] for row in removed])
    _discount(connection, ((count, size, topic, partition) for _, topic, partition, count, size in removed))
    return len(removed) < len(rows) or len(rows) == DELETED_AT_ONCE


def _discount(connection: sqlite3.Connection, removed: Iterable[tuple[int, int, int, int]]) -> None:
    connection.executemany(
        "UPDATE partitions SET records = records - ?, bytes = bytes - ? WHERE topic = ? AND partition = ?", removed
    )


class BatchRow(NamedTuple):
    """The row of a batch, without its data."""

    base: int
    last: int
    rows: int
    appended: int
    size: int


def stored(
    connection: sqlite3.Connection, topic: int, source: TopicPartition, offset: int, limit: int
) -> list[BatchRow]:
    rows = connection.execute(
        "SELECT base_offset, last_offset, count, appended, bytes FROM batches "
        "WHERE topic = ? AND partition = ? AND last_offset >= ? ORDER BY last_offset LIMIT ?",
        (topic, source.partition, offset, limit),
    ).fetchall()
    for row in rows:
        check_whole(row, source)
    return [BatchRow(*row) for row in rows]


def size(connection: sqlite3.Connection, topic: int, partition: int) -> int:
    row = connection.execute("SELECT bytes FROM partitions WHERE topic = ? AND partition = ?", (topic, partition))
    return int((row.fetchone() or (0,))[0])


def data(
    connection: sqlite3.Connection, topic: int, source: TopicPartition, first: int, last: int
) -> list[StoredBatch]:
    """The batches with last offsets from `first` to `last`, with their data."""
    rows = connection.execute(
        f"SELECT {WHOLE} FROM batches WHERE topic = ? AND partition = ? AND last_offset BETWEEN ? AND ? "
        "ORDER BY last_offset",
        (topic, source.partition, first, last),
    )
    return _blobs(rows.fetchall(), source)


def replace(
    connection: sqlite3.Connection, topic: int, source: TopicPartition, old: list[BatchRow], new: list[EncodedBatch]
) -> bool:
    """Replace consecutive batches by compacted ones; False if the old batches have changed."""
    first, last, partition = old[0].last, old[-1].last, source.partition
    if stored(connection, topic, source, first, len(old)) != old:
        return False
    connection.execute(
        "DELETE FROM batches WHERE topic = ? AND partition = ? AND last_offset BETWEEN ? AND ?",
        (topic, partition, first, last),
    )
    appended = max(batch.appended for batch in old)
    for batch in new:
        assert batch.offsets is not None
        _insert(connection, (topic, partition, batch.offsets[0], batch.offsets[-1]), batch, appended)
    count = sum(batch.rows for batch in old) - sum(batch.rows for batch in new)
    size = sum(batch.size for batch in old) - sum(batch.size for batch in new)
    _discount(connection, [(count, size, topic, partition)])
    return True


# -- compaction


def compacted_until(connection: sqlite3.Connection, topic: int, partition: int) -> int:
    """The offset that compaction has reached; of a partition that is gone, more than any."""
    row = connection.execute("SELECT compacted FROM partitions WHERE topic = ? AND partition = ?", (topic, partition))
    return int((row.fetchone() or (1 << 62,))[0])


def not_compacted_since(connection: sqlite3.Connection, topic: int, partition: int) -> int | None:
    """When the first record that no compaction has seen was appended; None if there is none."""
    row = connection.execute(
        "SELECT b.appended FROM partitions p JOIN batches b ON b.topic = p.topic AND b.partition = p.partition "
        "AND b.last_offset >= max(p.compacted, p.start_offset) WHERE p.topic = ? AND p.partition = ? "
        "ORDER BY b.last_offset LIMIT 1",
        (topic, partition),
    ).fetchone()
    return None if row is None else int(row[0])


def note_cleaning(
    connection: sqlite3.Connection, topic: int, partition: int, before: int, at: int, apart_ms: float
) -> None:
    """Note that before this offset only the last record of each key is left, as of now."""
    connection.execute(
        "UPDATE partitions SET compacted = max(compacted, ?) WHERE topic = ? AND partition = ?",
        (before, topic, partition),
    )
    last = connection.execute(
        "SELECT at FROM cleanings WHERE topic = ? AND partition = ? ORDER BY before_offset DESC", (topic, partition)
    ).fetchone()
    if last is None or not 0 <= at - last[0] < apart_ms:
        connection.execute(
            "INSERT OR IGNORE INTO cleanings (topic, partition, before_offset, at) VALUES (?, ?, ?, ?)",
            (topic, partition, before, at),
        )


def cleaned_before(connection: sqlite3.Connection, topic: int, partition: int, time: int) -> int:
    """The offset that cleanings before this time have reached; earlier cleanings are deleted from the table."""
    offset = cleaned(connection, topic, partition, time).offset
    connection.execute(
        "DELETE FROM cleanings WHERE topic = ? AND partition = ? AND before_offset < ?", (topic, partition, offset)
    )
    return offset


def cleaned(connection: sqlite3.Connection, topic: int, partition: int, time: int) -> Cleaned:
    """The last cleaning before this time."""
    row = connection.execute(
        "SELECT before_offset, at FROM cleanings WHERE topic = ? AND partition = ? AND at < ? "
        "ORDER BY before_offset DESC LIMIT 1",
        (topic, partition, time),
    ).fetchone()
    return Cleaned(*row) if row else Cleaned()
