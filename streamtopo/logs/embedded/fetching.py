"""What a member reads: where it stands in each partition, and the next records of those that have news."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs.embedded import storage
from streamtopo.logs.embedded.batches import Run, cut, join_runs
from streamtopo.logs.embedded.storage import Extent
from streamtopo.records import Batch, TopicPartition

MOST_BYTES = 64 << 20
"""Encoded bytes that one fetch reads at most, or one batch."""
MOST_AHEAD = 64
"""Partitions for which the rest of a batch is kept."""


class Ahead(NamedTuple):
    """The rest of a batch of which some was handed out, and where reading goes on after it."""

    run: Run
    next_offset: int


class Fetcher:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._next: dict[TopicPartition, int] = {}
        self._ahead: dict[TopicPartition, Ahead] = {}
        self._extents: dict[TopicPartition, Extent] = {}
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
        """An even share of the limit from each partition that has more, beginning with another one each time."""
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
            # What was taken from other partitions was not handed out: it is read again.
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
            runs += [Run.open(blob, partition).since(after) for blob in found.blobs]
            after = runs[-1].offsets[-1] + 1 if runs else after
            after = max(known.end, after) if found.exhausted else after
        return self._hand_out(partition, runs, limit, after), size

    def _find(self, partition: TopicPartition, known: Extent, offset: int, limit: int, room: float) -> storage.Found:
        storage.check_inside(partition, offset, known)
        found = storage.find(self._connection, known.topic, partition, offset, limit, room)
        if storage.gaps(found, offset, known.end):
            self._check_gaps(partition, offset, known, found)
        return found

    def _check_gaps(self, partition: TopicPartition, offset: int, known: Extent, found: storage.Found) -> None:
        """Compaction leaves gaps; but the records may as well have been deleted since we looked."""
        now = storage.extent(self._connection, partition)
        storage.check_inside(partition, offset, now)
        if now.topic != known.topic:
            raise LogError(f'topic "{partition.topic}" was deleted and created anew; start again to read the new one')
        storage.check_gaps(self._connection, partition, known, offset, found)

    def _hand_out(self, partition: TopicPartition, runs: list[Run], limit: int, after: int) -> Batch:
        """Up to `limit` records; the rest of the batch in which that ends is kept."""
        given, rest, last = cut(runs, limit)
        columns, offsets = join_runs(given)
        if rest is not None:
            if len(self._ahead) >= MOST_AHEAD:
                self._ahead.clear()
            self._ahead[partition] = Ahead(rest, after if last else rest.offsets[-1] + 1)
        if rest is not None or not last:
            after = offsets[-1] + 1
        return Batch(partition, columns, offsets, after)

    def _look(self) -> None:
        """Learn where the partitions end now, if anything was committed since the last look."""
        # `data_version` does not see what this connection committed itself; `total_changes` sees only that.
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
        self._extents = {TopicPartition(name, number): Extent(*known) for name, number, *known in rows}
        self._changes = changes

    def _extent(self, partition: TopicPartition) -> Extent:
        try:
            return self._extents[partition]
        except KeyError:
            raise LogError(
                f"partition {partition} does not exist any more; stop the readers of a topic before it is deleted"
            ) from None
