"""What a member reads: its offset in each partition, and the next records of partitions that have new ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.batches import BatchView, cut, join_views
from streamtopo.logs.embedded.storage.statements import PartitionExtent
from streamtopo.records import Batch, TopicPartition

MOST_BYTES = 64 << 20
"""At most this many encoded bytes, or one batch, are read in one fetch."""
MOST_AHEAD = 64
"""At most this many partitions keep the rest of a batch."""


class Remainder(NamedTuple):
    """The rest of a batch that was returned in part, and the offset to read from after it."""

    run: BatchView
    next_offset: int


class Fetcher:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._next: dict[TopicPartition, int] = {}
        self._ahead: dict[TopicPartition, Remainder] = {}
        self._extents: dict[TopicPartition, PartitionExtent] = {}
        self._turn = 0
        self.use(connection)

    def use(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._changes = (-1, -1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._next[partition] = offset
        self._ahead.pop(partition, None)
        self._changes = (-1, -1)

    def drop(self, partition: TopicPartition) -> None:
        self._next.pop(partition, None)
        self._ahead.pop(partition, None)

    def ends(self) -> Mapping[TopicPartition, int]:
        self._look()
        return {partition: self._extent(partition).end for partition in self._next}

    def fetch(self, limit: int, paused: Container[TopicPartition]) -> list[Batch]:
        """An equal share of the limit from each partition that has more; each call begins with another partition."""
        self._look()
        behind = sorted(
            partition
            for partition, offset in self._next.items()
            if partition not in paused and self._extent(partition).end != offset
        )
        self._turn += 1
        start = self._turn % len(behind) if behind else 0
        try:
            batches = list(self._taken(behind[start:] + behind[:start], limit))
        except BaseException:
            # What was taken from other partitions is not returned now: read it again.
            self._ahead.clear()
            raise
        self._next.update((batch.source, batch.next_offset) for batch in batches)
        return batches

    def _taken(self, partitions: list[TopicPartition], limit: int) -> Iterator[Batch]:
        room: float = MOST_BYTES
        for place, partition in enumerate(partitions):
            if limit <= 0 or room <= 0:
                return
            batch, size = self._next_of(partition, -(-limit // (len(partitions) - place)), room)
            limit -= len(batch.offsets)
            room -= size
            yield batch

    def _next_of(self, partition: TopicPartition, limit: int, room: float) -> tuple[Batch, int]:
        known = self._extent(partition)
        runs, after = [], self._next[partition]
        if (ahead := self._ahead.pop(partition, None)) is not None:
            runs, after = [ahead.run], ahead.next_offset
        missing = limit - sum(map(len, runs))
        size = 0
        if missing > 0 and after != known.end:
            found = self._find(partition, known, after, missing, room)
            size = sum(len(blob.data) for blob in found.blobs)
            runs += [BatchView.open(blob, partition).since(after) for blob in found.blobs]
            after = runs[-1].offsets[-1] + 1 if runs else after
            after = max(known.end, after) if found.exhausted else after
        return self._hand_out(partition, runs, limit, after), size

    def _find(
        self, partition: TopicPartition, known: PartitionExtent, offset: int, limit: int, room: float
    ) -> statements.FoundBatches:
        statements.check_inside(partition, offset, known)
        found = statements.find(self._connection, known.topic, partition, offset, limit, room)
        if statements.gaps(found, offset, known.end):
            self._check_gaps(partition, offset, known, found)
        return found

    def _check_gaps(
        self, partition: TopicPartition, offset: int, known: PartitionExtent, found: statements.FoundBatches
    ) -> None:
        """Compaction leaves gaps. But the records may also have been deleted since the last look."""
        now = statements.extent(self._connection, partition)
        statements.check_inside(partition, offset, now)
        if now.topic != known.topic:
            raise LogError(f'topic "{partition.topic}" was deleted and created again; restart to read the new topic')
        statements.check_gaps(self._connection, partition, known, offset, found)

    def _hand_out(self, partition: TopicPartition, runs: list[BatchView], limit: int, after: int) -> Batch:
        """Up to `limit` records; the rest of the last batch is kept."""
        given, rest, last = cut(runs, limit)
        columns, offsets = join_views(given)
        if rest is not None:
            if len(self._ahead) >= MOST_AHEAD:
                self._ahead.clear()
            self._ahead[partition] = Remainder(rest, after if last else rest.offsets[-1] + 1)
        if rest is not None or not last:
            after = offsets[-1] + 1
        return Batch(partition, columns, offsets, after)

    def _look(self) -> None:
        """Read where the partitions end, if anything was committed since the last look."""
        # `data_version` changes with the commits of other connections, `total_changes` with those of this one.
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        changes = (version, self._connection.total_changes)
        if changes == self._changes:
            return
        names = sorted({partition.topic for partition in self._next})
        rows = self._connection.execute(
            "SELECT t.name, p.partition, p.topic, p.start_offset, p.next_offset FROM topics t "
            f"JOIN partitions p ON p.topic = t.id WHERE t.name IN ({', '.join('?' * len(names))})",
            names,
        ).fetchall()
        self._extents = {TopicPartition(name, number): PartitionExtent(*known) for name, number, *known in rows}
        self._changes = changes

    def _extent(self, partition: TopicPartition) -> PartitionExtent:
        try:
            return self._extents[partition]
        except KeyError:
            raise LogError(
                f"partition {partition} does not exist any more; stop the readers of a topic before you delete it"
            ) from None
