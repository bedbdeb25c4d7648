"""The partitions that a member owns: what the group gave it, and what the group took away."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from streamtopo.records import TopicPartition


class Ownership:
    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.known = False
        """Whether the group has given this member anything yet."""
        self._reported: frozenset[TopicPartition] = frozenset()
        """What the worker has heard of."""
        self._unreported: set[TopicPartition] = set()
        """What was lost, until `reported` has left it out once."""
        self._lost: set[TopicPartition] = set()
        """What was lost, until the work on it is closed: it must not be committed, even if it is given again."""

    def reported(self) -> frozenset[TopicPartition]:
        unreported, self._unreported = self._unreported, set()
        self._reported = frozenset(self.partitions - unreported)
        return self._reported

    def give(self, partitions: AbstractSet[TopicPartition]) -> None:
        self.partitions |= partitions
        self.known = True

    def revoke(self, partitions: AbstractSet[TopicPartition]) -> None:
        """The work on them was closed before."""
        self.partitions -= partitions

    def lose(self, partitions: AbstractSet[TopicPartition]) -> None:
        """There was no time to close the work on them. There is none on those that the worker has not heard of."""
        lost = partitions & self.partitions & self._reported
        self._lost |= lost
        self._unreported |= lost
        self.partitions -= partitions

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        self._lost.difference_update(partitions)

    def refused(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of them that this member must not commit."""
        return [part for part in partitions if part not in self.partitions or part in self._lost]
