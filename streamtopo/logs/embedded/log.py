"""The embedded log: topics, records and notes in one directory, shared by the processes of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path

from streamtopo.errors import LogError
from streamtopo.logs import CLEANING_MEMORY, Cleaned, GroupState, Topic
from streamtopo.logs.embedded import roster, storage
from streamtopo.logs.embedded.batches import Run, cut, encode, join_runs
from streamtopo.logs.embedded.checkpoints import Checkpoints
from streamtopo.logs.embedded.cleaning import Cleaner, Policy
from streamtopo.logs.embedded.database import Database, Now, reading, wall_clock, writing
from streamtopo.logs.embedded.member import EmbeddedMember
from streamtopo.logs.embedded.presence import LEASE, address_of, alive
from streamtopo.logs.groups import check_no_members
from streamtopo.records import Batch, Columns, Position, TopicPartition

_KEEPS_DELETIONS = 10 * 60_000
"""Milliseconds. A store that has missed a deletion is noticed exactly, so this is only for how long a worker may be
stopped, while others go on with its tasks, before its stores are rebuilt."""


class EmbeddedLog:
    """`synchronous`: with FULL a commit is on the disk when it is done; with NORMAL a power cut may take the last ones.

    `now` is the wall clock, in milliseconds, that retention goes by.
    """

    one_machine = True

    def __init__(
        self,
        path: str | Path = ".streamtopo",
        *,
        synchronous: str = "full",
        lease: float = LEASE,
        now: Now = wall_clock,
    ) -> None:
        if synchronous.lower() not in ("full", "normal"):
            raise LogError(f'synchronous is "full" or "normal", not "{synchronous}"')
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
            return {name: topic for name, (_, topic) in storage.topics(connection).items()}

    def create(self, topic: Topic) -> None:
        Policy.of(topic)  # better now than when it is cleaned
        with self._database.connection() as connection, writing(connection):
            storage.create(connection, topic)

    def delete(self, topic: str) -> None:
        with self._database.connection() as connection:
            with writing(connection):
                id = storage.delete(connection, topic)
            more = True
            while more:
                with writing(connection):
                    more = storage.sweep_deleted(connection, id)

    # -- records

    def append(self, target: TopicPartition, columns: Columns) -> int:
        batches = encode(columns)
        with self._database.connection() as connection:
            with writing(connection):
                end = storage.append(connection, target, batches, self._now())
            self._checkpoints.wrote(sum(batch.size for batch in batches))
            return end

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        with self._database.connection() as connection, reading(connection):
            known = storage.extent(connection, source)
            storage.check_inside(source, offset, known)
            found = storage.find(connection, known.topic, source, offset, limit, most_bytes)
            storage.check_gaps(connection, source, known, offset, found)
        runs = [Run.open(blob, source).since(offset) for blob in found.blobs]
        given, rest, last = cut(runs, limit)
        columns, offsets = join_runs(given)
        if found.exhausted and last and rest is None:
            return Batch(source, columns, offsets, known.end)
        return Batch(source, columns, offsets, offsets[-1] + 1 if offsets else offset)

    def start(self, partition: TopicPartition) -> int:
        with self._database.connection() as connection:
            return storage.extent(connection, partition).start

    def end(self, partition: TopicPartition) -> int:
        with self._database.connection() as connection:
            return storage.extent(connection, partition).end

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        with self._database.connection() as connection, reading(connection):
            known = storage.extent(connection, partition)
            blobs = storage.not_before(connection, known, partition, timestamp)
        for run in (Run.open(blob, partition).since(known.start) for blob in blobs):
            for offset, time in zip(run.offsets, run.timestamps(), strict=True):
                if time >= timestamp:
                    return offset
        return known.end

    # -- cleaning

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        with self._database.connection() as connection:
            with writing(connection):
                topic = storage.extent(connection, partition).topic
                storage.move_start(connection, topic, partition.partition, offset)
            more = True
            while more:
                with writing(connection):
                    more = storage.sweep(connection, topic, partition.partition)

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """Retention and compaction, for about so long; True if there is more to do. For moments without work."""
        return self._cleaner.clean(slice_ms, memory)

    def cleaned(self, partition: TopicPartition) -> Cleaned:
        with self._database.connection() as connection, reading(connection):
            id, topic = storage.topic(connection, partition.topic)
            return storage.cleaned(connection, id, partition.partition, self._now() - Policy.of(topic).tombstones_ms)

    def compact(self, partition: TopicPartition) -> None:
        """Keep the last record of each key, now; offsets stay what they were, with gaps."""
        self._cleaner.compact(partition)

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
            recorded = roster.groups(connection)
        states = {name: self._of_the_living(state) for name, state in recorded.items()}
        return {name: state for name, state in states.items() if state.members or state.positions}

    def group(self, name: str) -> GroupState | None:
        return self.groups().get(name)

    def _of_the_living(self, state: GroupState) -> GroupState:
        """The dead are in the tables until another member of their group looks after them."""
        members = self._database.directory / "members"
        living = {id: owned for id, owned in state.members.items() if alive(members, id, self._lease)}
        addresses = {id: address for id in living if (address := address_of(members, id))}
        return state._replace(members=living, addresses=addresses)

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        with self._database.connection() as connection, writing(connection):
            if (state := roster.groups(connection).get(group)) is not None:
                check_no_members(group, self._of_the_living(state).members)
            roster.replace_positions(connection, group, positions)

    def note(self, name: str) -> str | None:
        with self._database.connection() as connection:
            row = connection.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def write_note(self, name: str, text: str) -> None:
        with self._database.connection() as connection, writing(connection):
            connection.execute("INSERT OR REPLACE INTO notes (name, text) VALUES (?, ?)", (name, text))

    def close(self) -> None:
        """Members that have not left do so now, also those that nobody refers to any more."""
        for member in list(self._members):
            member.leave()
        self._checkpoints.close()
        self._cleaner.close()
        self._database.close()
