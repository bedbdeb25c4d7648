"""A member of a group on the embedded log: its share of the work, what it reads, and its commits."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress

from streamtopo.logs import CommitResult, Outcome, Revoking, ignored
from streamtopo.logs.embedded.group import group_statements
from streamtopo.logs.embedded.group.fetcher import Fetcher
from streamtopo.logs.embedded.group.member_file import MemberFile
from streamtopo.logs.embedded.group.share import Share
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.batches import encode
from streamtopo.logs.embedded.storage.checkpoints import Checkpoints
from streamtopo.logs.embedded.storage.database import (
    Database,
    InDoubt,
    WallClock,
    busy,
    explain,
    full,
    writing,
)
from streamtopo.records import Batch, Columns, Position, TopicPartition, join_columns

SHORTEST, LONGEST = 0.0003, 0.003
"""Seconds between two looks for new records: few at first, more while none come."""


class _RefusedError(Exception):
    """The commit must not happen; the message says why."""


class EmbeddedMember:
    def __init__(
        self,
        database: Database,
        checkpoints: Checkpoints,
        group: str,
        topics: Iterable[tuple[str, ...]],
        *,
        lease: float,
        now: WallClock,
        address: str = "",
        left: Callable[[EmbeddedMember], None],
    ) -> None:
        self._database = database
        self._checkpoints = checkpoints
        self._group = group
        self._now = now
        self._left = left
        members = database.directory / "members"
        with database.explained():
            self._connection = database.connect()
            self._member_file = MemberFile(members, lease, address)
        self.id = self._member_file.id
        self._fetcher = Fetcher(self._connection)
        self._share = Share(group, self.id, topics, members=members, lease=lease, forget=self._fetcher.drop)
        self._sent: dict[TopicPartition, list[Columns]] = {}

    # -- the group

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self._share.subscribe(topics)

    placed = True

    def assignment(self) -> frozenset[TopicPartition]:
        self._member_file.used()
        with self._database.explained():
            return self._share.assignment(self._connection)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        with self._database.explained():
            self._share.release(self._connection, partitions)

    def leave(self) -> None:
        with suppress(sqlite3.Error):  # the other members notice anyway that this one has gone
            self._remove()
        self._connection.close()
        self._member_file.leave()
        self._left(self)

    def evict(self) -> None:
        """What other members do to a member that seems dead, whether or not it is."""
        with self._database.explained():
            self._remove()

    def _remove(self) -> None:
        with writing(self._connection):
            group_statements.remove(self._connection, self.id)

    # -- reading

    def poll(
        self, limit: int, timeout: float, paused: Container[TopicPartition] = (), revoking: Revoking = ignored
    ) -> list[Batch]:
        self._member_file.used()
        deadline = time.monotonic() + timeout
        pause = SHORTEST
        with self._database.explained():
            while not (batches := self._fetch(limit, paused)):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(pause, left))
                pause = min(pause * 1.2, LONGEST)
        return batches

    def _fetch(self, limit: int, paused: Container[TopicPartition]) -> list[Batch]:
        """The next owner of a partition may have deleted what it has processed: `assignment` reports what was lost."""
        try:
            return self._fetcher.fetch(limit, paused)
        except statements.OutsideLog:
            if self._lost(self._share.owned, group_statements.owned(self._connection, self.id)):
                return []
            raise

    def ends(self) -> Mapping[TopicPartition, int]:
        with self._database.explained():
            return self._fetcher.ends()

    def knows_end(self, partition: TopicPartition) -> bool:
        return True

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._fetcher.seek(partition, offset)

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position]:
        with self._database.explained():
            known = group_statements.positions(self._connection, self._group)
        return {partition: known[partition] for partition in partitions if partition in known}

    # -- writing

    def send(self, target: TopicPartition, columns: Columns) -> None:
        if target not in self._sent:
            with self._database.explained():
                statements.extent(self._connection, target)
        self._sent.setdefault(target, []).append(columns)

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        """They are written by `commit`."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> CommitResult:
        self._member_file.used()
        batches = {target: encode(join_columns(parts)) for target, parts in self._sent.items()}
        try:
            with writing(self._connection):
                ids = self._still_owned(positions)
                now = self._now()
                ends = {
                    target: statements.append(self._connection, target, new, now) for target, new in batches.items()
                }
                group_statements.write_positions(self._connection, self._group, positions, ids)
        except _RefusedError as refused:
            return CommitResult(Outcome.NOT_DONE, reason=str(refused))
        except sqlite3.Error as error:
            return self._failed(error)
        self._sent = {}
        self._checkpoints.wrote(sum(batch.size for new in batches.values() for batch in new))
        return CommitResult(Outcome.DONE, ends)

    def _still_owned(self, positions: Mapping[TopicPartition, Position]) -> dict[str, int]:
        """The ids of the topics of the positions. The same transaction commits, so no other member can take them."""
        owned = group_statements.owned(self._connection, self.id)
        for partition in self._lost(positions, owned):
            statements.extent(self._connection, partition)
            raise _RefusedError(f"{partition} belongs to another member now")
        return {partition.topic: id for partition, (_, id) in owned.items()}

    def _lost(
        self, partitions: Iterable[TopicPartition], owned: Mapping[TopicPartition, tuple[int, int]]
    ) -> list[TopicPartition]:
        """Those of the partitions that the member does not own any more, or not without an interruption."""
        epochs = {partition: epoch for partition, (epoch, _) in owned.items()}
        return [one for one in partitions if one not in epochs or epochs[one] != self._share.owned.get(one)]

    def _failed(self, error: sqlite3.Error) -> CommitResult:
        explained = explain(error, self._database.directory)
        if isinstance(error, InDoubt):
            return CommitResult(Outcome.UNKNOWN, reason=str(explained))
        if busy(error) or full(error):
            return CommitResult(Outcome.NOT_DONE, reason=str(explained))
        raise explained from error

    def abort(self) -> None:
        self._sent = {}

    def settle(self) -> None:
        """A write that succeeds replaces, in the WAL, a commit that did not: after that it cannot happen any more."""
        self._sent = {}
        with self._database.explained():
            self._connection.close()
            self._connection = self._database.connect()
            self._fetcher.use(self._connection)
            self._share.refresh()
            with writing(self._connection):
                statements.bump_generation(self._connection)
