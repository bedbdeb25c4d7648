"""The embedded log: topics, records and notes in one directory, shared by the processes of a machine."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from pathlib import Path

from streamtopo.errors import LogError
from streamtopo.logs import CLEANING_MEMORY, Cleaned, GroupProgress, GroupState, Topic
from streamtopo.logs.embedded.cleaning.cleaner import Cleaner, Policy
from streamtopo.logs.embedded.group import group_statements
from streamtopo.logs.embedded.group.member import EmbeddedMember
from streamtopo.logs.embedded.group.member_file import LEASE, address_of, alive
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.batches import BatchView, cut, encode, join_views
from streamtopo.logs.embedded.storage.checkpoints import Checkpoints
from streamtopo.logs.embedded.storage.database import Database, WallClock, reading, writing
from streamtopo.logs.embedded.storage.pages import PageView
from streamtopo.logs.groups import check_no_members
from streamtopo.records import Batch, Columns, Position, TopicPartition
from streamtopo.wall_clock import wall_clock

_KEEPS_DELETIONS = 10 * 60_000
"""Milliseconds. A store that has missed a deletion is always detected. So this only decides how long a worker may be
stopped, while others run its tasks, before its stores must be rebuilt."""


_PAGE_BYTES, _PAGE_ROWS = 2 << 20, 20_000
"""What a scan reads at once: encoded bytes (headers of dead letters have ten times as many when decoded), and rows."""


class EmbeddedLog:
    """With `synchronous="full"` commits are on the disk when they are done; with "normal" a power cut may lose some.

    `now` is the clock of retention, in milliseconds.
    """

    one_machine = True

    def __init__(
        self,
        path: str | Path = ".streamtopo",
        *,
        synchronous: str = "full",
        lease: float = LEASE,
        now: WallClock = wall_clock,
    ) -> None:
        if synchronous.lower() not in ("full", "normal"):
            raise LogError(f'synchronous must be "full" or "normal", not "{synchronous}"')
        self.path = Path(path)
        self._database = Database(self.path, synchronous.upper())
        self._checkpoints = Checkpoints(self._database)
        self._cleaner = Cleaner(self._database, self._checkpoints, now)
        self._lease = lease
        self._now = now
        self._members: set[EmbeddedMember] = set()
        with self._database.connection() as connection:
            self.id: str = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0]

    keeps_deletions = _KEEPS_DELETIONS

    # -- topics

    def topics(self) -> Mapping[str, Topic]:
        with self._database.connection() as connection:
            return {name: topic for name, (_, topic) in statements.topics(connection).items()}

    def create(self, topic: Topic) -> None:
        Policy.of(topic)  # raises an error for a wrong config
        with self._database.connection() as connection, writing(connection):
            statements.create(connection, topic)

    def delete(self, topic: str) -> None:
        with self._database.connection() as connection:
            with writing(connection):
                id = statements.delete(connection, topic)
            more = True
            while more:
                with writing(connection):
                    more = statements.delete_batches_of(connection, id)

    # -- records

    def largest(self, topic: str) -> int:
        return 0

    def append(self, target: TopicPartition, columns: Columns) -> int:
        batches = encode(columns)
        with self._database.connection() as connection:
            with writing(connection):
                end = statements.append(connection, target, batches, self._now())
            self._checkpoints.wrote(sum(batch.size for batch in batches))
            return end

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        with self._database.connection() as connection, reading(connection):
            known = statements.extent(connection, source)
            statements.check_inside(source, offset, known)
            found = statements.find(connection, known.topic, source, offset, limit, most_bytes)
            statements.check_gaps(connection, source, known, offset, found)
        runs = [BatchView.open(blob, source).since(offset) for blob in found.blobs]
        given, rest, last = cut(runs, limit)
        columns, offsets = join_views(given)
        if found.exhausted and last and rest is None:
            return Batch(source, columns, offsets, known.end)
        return Batch(source, columns, offsets, offsets[-1] + 1 if offsets else offset)

    def scan(self, source: TopicPartition, start: int, end: int) -> Iterator[PageView]:
        exhausted = False
        while start < end and not exhausted:
            with self._database.connection() as connection, reading(connection):
                known = statements.extent(connection, source)
                start = max(start, known.start)  # records that were deleted in the meantime are skipped
                limit = min(end - start, _PAGE_ROWS)
                found = statements.find(connection, known.topic, source, start, limit, _PAGE_BYTES)
                statements.check_gaps(connection, source, known, start, found)
            views = [BatchView.open(blob, source).since(start) for blob in found.blobs]
            inside = [view.rows(0, bisect_left(view.offsets, end)) for view in views]
            if any(map(len, inside)):
                yield PageView([view for view in inside if len(view)])
            exhausted, start = found.exhausted, found.blobs[-1].last + 1 if found.blobs else end

    def start(self, partition: TopicPartition) -> int:
        with self._database.connection() as connection:
            return statements.extent(connection, partition).start

    def end(self, partition: TopicPartition) -> int:
        with self._database.connection() as connection:
            return statements.extent(connection, partition).end

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        with self._database.connection() as connection, reading(connection):
            known = statements.extent(connection, partition)
            blobs = statements.not_before(connection, known, partition, timestamp)
        for run in (BatchView.open(blob, partition).since(known.start) for blob in blobs):
            for offset, time in zip(run.offsets, run.timestamps(), strict=True):
                if time >= timestamp:
                    return offset
        return known.end

    # -- cleaning

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        with self._database.connection() as connection:
            with writing(connection):
                topic = statements.extent(connection, partition).topic
                statements.move_start(connection, topic, partition.partition, offset)
            more = True
            while more:
                with writing(connection):
                    more = statements.delete_before_start(connection, topic, partition.partition)

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """Retention and compaction, for about `slice_ms`; True if there is more to do. Call it when idle."""
        return self._cleaner.clean(slice_ms, memory)

    def cleaned(self, partition: TopicPartition) -> Cleaned:
        with self._database.connection() as connection, reading(connection):
            id, topic = statements.topic(connection, partition.topic)
            return statements.cleaned(connection, id, partition.partition, self._now() - Policy.of(topic).tombstones_ms)

    def compact(self, partition: TopicPartition) -> None:
        """Keep only the last record of each key, now; offsets do not change, so there are gaps."""
        self._cleaner.compact(partition)

    def wipe(self) -> None:
        """Write the file again, without the bytes of deleted records. Meanwhile, others can read, but not write."""
        self._cleaner.wipe()

    # -- groups and notes

    def join(
        self, group: str, topics: Iterable[tuple[str, ...]], *, address: str = "", exactly_once: bool = True
    ) -> EmbeddedMember:
        member = EmbeddedMember(
            self._database,
            self._checkpoints,
            group,
            topics,
            lease=self._lease,
            now=self._now,
            address=address,
            left=self._members.discard,
        )
        self._members.add(member)
        return member

    def groups(self) -> Mapping[str, GroupState]:
        with self._database.connection() as connection, reading(connection):
            recorded = group_statements.groups(connection)
        states = {name: self._of_the_living(state) for name, state in recorded.items()}
        return {name: state for name, state in states.items() if state.members or state.positions}

    def group(self, name: str) -> GroupState | None:
        return self.groups().get(name)

    def progress(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, GroupProgress]:
        with self._database.connection() as connection, reading(connection):
            return {one: group_statements.progress(connection, group, one) for one in partitions}

    def _of_the_living(self, state: GroupState) -> GroupState:
        """Without dead members: they are in the tables until another member of the group removes them."""
        members = self._database.directory / "members"
        living = {id: owned for id, owned in state.members.items() if alive(members, id, self._lease)}
        addresses = {id: address for id in living if (address := address_of(members, id))}
        return state._replace(members=living, addresses=addresses)

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        with self._database.connection() as connection, writing(connection):
            if (state := group_statements.groups(connection).get(group)) is not None:
                check_no_members(group, self._of_the_living(state).members)
            group_statements.replace_positions(connection, group, positions)

    def note(self, name: str) -> str | None:
        with self._database.connection() as connection:
            row = connection.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def write_note(self, name: str, text: str) -> None:
        with self._database.connection() as connection, writing(connection):
            connection.execute("INSERT OR REPLACE INTO notes (name, text) VALUES (?, ?)", (name, text))

    def close(self) -> None:
        """Members that have not left leave now, also those without a reference."""
        for member in list(self._members):
            member.leave()
        self._checkpoints.close()
        self._cleaner.close()
        self._database.close()
