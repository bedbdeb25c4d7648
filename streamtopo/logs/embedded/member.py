"""A worker's place in a group of the embedded log: its share of the work, what it reads, and its commits."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress

from streamtopo.logs import Committed, Outcome, Revoking, ignored
from streamtopo.logs.embedded import roster, storage
from streamtopo.logs.embedded.batches import encode
from streamtopo.logs.embedded.checkpoints import Checkpoints
from streamtopo.logs.embedded.database import Database, InDoubt, Now, busy, explain, full, reading, writing
from streamtopo.logs.embedded.fetching import Fetcher
from streamtopo.logs.embedded.presence import Presence, alive, remove_files_of_dead
from streamtopo.records import Batch, Columns, Position, TopicPartition, join_columns

PROBE = 0.05
"""Seconds between two looks at whether the others are alive."""
SHORTEST, LONGEST = 0.0003, 0.003
"""Seconds between two looks for news: short after some came, longer while nothing happens."""


class _RefusedError(Exception):
    """The commit must not happen; the text says why."""


class EmbeddedMember:
    def __init__(
        self,
        database: Database,
        checkpoints: Checkpoints,
        group: str,
        topics: Iterable[tuple[str, ...]],
        *,
        lease: float,
        now: Now,
        address: str = "",
        left: Callable[[EmbeddedMember], None],
    ) -> None:
        self._database = database
        self._checkpoints = checkpoints
        self._group = group
        self._topics = tuple(map(tuple, topics))
        self._lease = lease
        self._now = now
        self._left = left
        self._members = database.directory / "members"
        with database.explained():
            self._connection = database.connect()
            self._presence = Presence(self._members, lease, address)
        self.id = self._presence.id
        self._fetcher = Fetcher(self._connection)
        self._owned: dict[TopicPartition, int] = {}
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._others: list[str] = []
        self._generation = -1
        self._probed = 0.0
        self._sent: dict[TopicPartition, list[Columns]] = {}

    # -- the group

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self._topics = tuple(map(tuple, topics))
        self._generation = -1

    placed = True

    def assignment(self) -> frozenset[TopicPartition]:
        self._presence.used()
        with self._database.explained():
            generation = storage.generation(self._connection)
            if generation != self._generation or self._somebody_died():
                self._assigned = self._assign(generation)
            return self._assigned

    def _assign(self, generation: int) -> frozenset[TopicPartition]:
        with reading(self._connection):
            known = roster.load(self._connection, self._group)
            share = roster.share(self._connection, known, self.id)
        kept = {part for part, epoch in self._owned.items() if known.owners.get(part) == (self.id, epoch)}
        if len(kept) < len(self._owned):
            # What was lost is reported before it can be taken anew: its stores are behind by then.
            self._forget(self._owned.keys() - kept)
            self._generation = -1
            return frozenset(kept)
        self._others = [member for member in known.members if member != self.id]
        dead = self._dead()
        if dead or known.members.get(self.id) != self._topics or share - known.owners.keys():
            share = self._take(dead)
        else:
            self._generation = generation
        return frozenset(share & self._owned.keys())

    def _take(self, dead: list[str]) -> set[TopicPartition]:
        """Bury the dead, and take what is nobody's of this member's share."""
        taken = {}
        with writing(self._connection):
            for member in dead:
                roster.remove(self._connection, member)
            roster.register(self._connection, self._group, self.id, self._topics)
            known = roster.load(self._connection, self._group)
            share = roster.share(self._connection, known, self.id)
            for partition in sorted(share - known.owners.keys()):
                taken[partition] = roster.take(self._connection, self._group, self.id, partition)
        self._owned.update(taken)
        if dead:
            remove_files_of_dead(self._members)
        return share

    def _somebody_died(self) -> bool:
        now = time.monotonic()
        if now - self._probed < PROBE:
            return False
        self._probed = now
        return bool(self._dead())

    def _dead(self) -> list[str]:
        return [member for member in self._others if not alive(self._members, member, self._lease)]

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            self._owned.pop(partition, None)
            self._fetcher.drop(partition)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        epochs = [self._owned[partition] for partition in partitions if partition in self._owned]
        if epochs:
            with self._database.explained(), writing(self._connection):
                roster.release(self._connection, epochs)
        self._forget(partitions)
        self._assigned -= frozenset(partitions)

    def leave(self) -> None:
        with suppress(sqlite3.Error):  # the others will find us gone all the same
            self._remove()
        self._connection.close()
        self._presence.leave()
        self._left(self)

    def evict(self) -> None:
        """What the others do to a member they take for dead, rightly or not."""
        with self._database.explained():
            self._remove()

    def _remove(self) -> None:
        with writing(self._connection):
            roster.remove(self._connection, self.id)

    # -- reading

    def poll(
        self, limit: int, timeout: float, paused: Container[TopicPartition] = (), revoking: Revoking = ignored
    ) -> list[Batch]:
        self._presence.used()
        deadline = time.monotonic() + timeout
        pause = SHORTEST
        with self._database.explained():
            while not (batches := self._fetcher.fetch(limit, paused)):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(pause, left))
                pause = min(pause * 1.2, LONGEST)
        return batches

    def ends(self) -> Mapping[TopicPartition, int]:
        with self._database.explained():
            return self._fetcher.ends()

    def knows_end(self, partition: TopicPartition) -> bool:
        return True

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._fetcher.seek(partition, offset)

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position]:
        with self._database.explained():
            known = roster.positions(self._connection, self._group)
        return {partition: known[partition] for partition in partitions if partition in known}

    # -- writing

    def send(self, target: TopicPartition, columns: Columns) -> None:
        if target not in self._sent:
            with self._database.explained():
                storage.extent(self._connection, target)
        self._sent.setdefault(target, []).append(columns)

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        """They are written with the rest."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> Committed:
        self._presence.used()
        batches = {target: encode(join_columns(parts)) for target, parts in self._sent.items()}
        try:
            with writing(self._connection):
                ids = self._still_owned(positions)
                now = self._now()
                ends = {target: storage.append(self._connection, target, new, now) for target, new in batches.items()}
                roster.write_positions(self._connection, self._group, positions, ids)
        except _RefusedError as refused:
            return Committed(Outcome.NOT_DONE, reason=str(refused))
        except sqlite3.Error as error:
            return self._failed(error)
        self._sent = {}
        self._checkpoints.wrote(sum(batch.size for new in batches.values() for batch in new))
        return Committed(Outcome.DONE, ends)

    def _still_owned(self, positions: Mapping[TopicPartition, Position]) -> dict[str, int]:
        """The ids of the positions' topics; the same transaction writes, so nobody takes them in between."""
        owned = roster.owned(self._connection, self.id)
        for partition in positions:
            epoch, _ = owned.get(partition, (None, None))
            if epoch is None or epoch != self._owned.get(partition):
                storage.extent(self._connection, partition)
                raise _RefusedError(f"{partition} belongs to another member by now")
        return {partition.topic: id for partition, (_, id) in owned.items()}

    def _failed(self, error: sqlite3.Error) -> Committed:
        explained = explain(error, self._database.directory)
        if isinstance(error, InDoubt):
            return Committed(Outcome.UNKNOWN, reason=str(explained))
        if busy(error) or full(error):
            return Committed(Outcome.NOT_DONE, reason=str(explained))
        raise explained from error

    def abort(self) -> None:
        self._sent = {}

    def settle(self) -> None:
        """A write that succeeds takes the place, in the WAL, of one that did not: then it never will."""
        self._sent = {}
        with self._database.explained():
            self._connection.close()
            self._connection = self._database.connect()
            self._fetcher.use(self._connection)
            self._generation = -1
            with writing(self._connection):
                storage.bump(self._connection)
