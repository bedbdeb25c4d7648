"""A member's share of the work of its group: it takes what no living member owns, and removes dead members."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from streamtopo.logs.embedded.group import group_statements
from streamtopo.logs.embedded.group.member_file import alive, remove_files_of_dead
from streamtopo.logs.embedded.storage import statements
from streamtopo.logs.embedded.storage.database import reading, writing
from streamtopo.records import TopicPartition

PROBE = 0.05
"""Seconds between two looks at whether the others are alive."""


class Share:
    """`members` is the directory of their files; `forget` is called for each partition that is not owned any more.

    The methods that read or write the log are given the connection to use.
    """

    def __init__(
        self,
        group: str,
        member: str,
        topics: Iterable[tuple[str, ...]],
        *,
        members: Path,
        lease: float,
        forget: Callable[[TopicPartition], None],
    ) -> None:
        self.owned: dict[TopicPartition, int] = {}
        """With the epoch of each: a number that no ownership had before."""
        self._group = group
        self._member = member
        self._members = members
        self._lease = lease
        self._drop = forget
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._others: list[str] = []
        self._probed = 0.0
        self.subscribe(topics)

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self._topics = tuple(map(tuple, topics))
        self.refresh()

    def refresh(self) -> None:
        """Read the tables of the group again, whether or not they changed."""
        self._generation = -1

    def assignment(self, connection: sqlite3.Connection) -> frozenset[TopicPartition]:
        generation = statements.generation(connection)
        if generation != self._generation or self._somebody_died():
            self._assigned = self._assign(connection, generation)
        return self._assigned

    def _assign(self, connection: sqlite3.Connection, generation: int) -> frozenset[TopicPartition]:
        with reading(connection):
            known = group_statements.load(connection, self._group)
            share = group_statements.share(connection, known, self._member)
        kept = {part for part, epoch in self.owned.items() if known.owners.get(part) == (self._member, epoch)}
        if len(kept) < len(self.owned):
            # What was lost is reported before it can be taken again: its stores are out of date by then.
            self._forget(self.owned.keys() - kept)
            self.refresh()
            return frozenset(kept)
        self._others = [member for member in known.members if member != self._member]
        dead = self._dead()
        if dead or known.members.get(self._member) != self._topics or share - known.owners.keys():
            share = self._take(connection, dead)
        else:
            self._generation = generation
        return frozenset(share & self.owned.keys())

    def _take(self, connection: sqlite3.Connection, dead: list[str]) -> set[TopicPartition]:
        """Remove the dead members, and take the unowned partitions of this member's share."""
        taken = {}
        with writing(connection):
            for member in dead:
                group_statements.remove(connection, member)
            group_statements.register(connection, self._group, self._member, self._topics)
            known = group_statements.load(connection, self._group)
            share = group_statements.share(connection, known, self._member)
            for partition in sorted(share - known.owners.keys()):
                taken[partition] = group_statements.take(connection, self._group, self._member, partition)
        self.owned.update(taken)
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

    def release(self, connection: sqlite3.Connection, partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        epochs = [self.owned[partition] for partition in partitions if partition in self.owned]
        if epochs:
            with writing(connection):
                group_statements.release(connection, epochs)
        self._forget(partitions)
        self._assigned -= frozenset(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            self.owned.pop(partition, None)
            self._drop(partition)
