"""What a log is: topics of partitions, groups whose members share the work, and commits that are all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum
from math import inf
from typing import NamedTuple, Protocol

from streamtopo.records import Batch, Columns, Position, TopicPartition

CLEANING_MEMORY = 32 << 20
"""Bytes that compaction may take where nobody says how many."""


class Outcome(Enum):
    """How a commit ended. After UNKNOWN, `settle` finds out which of the others it was."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class Committed(NamedTuple):
    """The outcome and, when done, the next offset of every partition that was written."""

    outcome: Outcome
    ends: Mapping[TopicPartition, int] = {}
    reason: str = ""


Revoking = Callable[[frozenset[TopicPartition]], object]


def ignored(partitions: frozenset[TopicPartition]) -> None:
    pass


class Member(Protocol):
    """One worker's place in a group; used by one thread."""

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        """The topics to share from now on; each tuple is shared out as one, partition by partition."""
        ...

    def assignment(self) -> frozenset[TopicPartition]:
        """What this member may work on now. It shrinks at once when the group takes something away."""
        ...

    @property
    def placed(self) -> bool:
        """Whether the group has said what this member may work on, be it nothing."""
        ...

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """The work on these is committed and closed: others may take them."""
        ...

    def poll(
        self, limit: int, timeout: float, paused: Container[TopicPartition] = (), revoking: Revoking = ignored
    ) -> list[Batch]:
        """Up to `limit` records of the partitions being read; waits up to `timeout` seconds for the first.

        Every partition gets its turn. It may return sooner with nothing, and a batch may have no records: a gap.
        A group that cannot wait for `release` calls `revoking` before it takes partitions away: the last chance to
        commit what was done with them, and to close it.
        """
        ...

    def ends(self) -> Mapping[TopicPartition, int]:
        """For each assigned partition the next offset to be written, as last known; never ahead of the log."""
        ...

    def knows_end(self, partition: TopicPartition) -> bool:
        """Whether the log has said where this assigned partition ends; until then `ends` can only guess."""
        ...

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position] | None:
        """None while the commit of a member that died is not decided: ask again."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from this offset on; none is read before its first seek."""
        ...

    def send(self, target: TopicPartition, columns: Columns) -> None:
        """Records that show only when `commit` is done."""
        ...

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        """The very ones of the next commit, before the last of its records: a log far away gets to know them."""
        ...

    def commit(self, positions: Mapping[TopicPartition, Position]) -> Committed:
        """Everything sent and these positions, or nothing; refused if a partition is another member's by now.

        Unless it is done, what was sent is kept until `abort` or `settle`.
        """
        ...

    def abort(self) -> None:
        """Forget what was sent since the last commit."""
        ...

    def settle(self) -> None:
        """After an unknown outcome: return when the commit has either happened or never will."""
        ...

    def leave(self) -> None: ...


class Topic(NamedTuple):
    name: str
    partitions: int
    config: Mapping[str, str] = {}
    id: str = ""
    """The log's own; a topic that is deleted and made anew has another one."""
    inherited: Mapping[str, str] = {}
    """What the log's own settings are where they are not usual, for what the topic leaves to them."""
    config_known: bool = True
    """False if the log does not show us its config, which is empty here."""

    def setting(self, name: str, usual: str) -> str:
        return self.config.get(name, self.inherited.get(name, usual))


class GroupState(NamedTuple):
    """A group as seen from outside: what each living member works on, and where the group stands."""

    members: Mapping[str, frozenset[TopicPartition]]
    positions: Mapping[TopicPartition, Position]
    addresses: Mapping[str, str] = {}
    """Where members answer queries, of those that do."""


class Cleaned(NamedTuple):
    """What compaction has forgotten: deletions before this offset, of rows that were gone themselves at this time."""

    offset: int = 0
    at: int = 0


class Log(Protocol):
    """Topics and their records; safe to use from several threads."""

    id: str
    one_machine: bool
    """Whether all who share it are processes of this machine."""
    keeps_deletions: int
    """Milliseconds for which it is good to keep deletions in changelogs; 0 leaves that to the log's own settings."""

    def topics(self) -> Mapping[str, Topic]: ...

    def create(self, topic: Topic) -> None:
        """Idempotent for an equal topic; an error for one that differs in its partition count or its config."""
        ...

    def delete(self, topic: str) -> None:
        """With its records, owners and positions; one created under the same name later is another topic."""
        ...

    def append(self, target: TopicPartition, columns: Columns) -> int:
        """Write at once, without a group; returns the next offset."""
        ...

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        """Committed records from this offset on, without a group; fewer than `limit` only at the end, or where they
        pass `most_bytes`, by one record or a megabyte of small ones at most.
        """
        ...

    def start(self, partition: TopicPartition) -> int: ...

    def end(self, partition: TopicPartition) -> int: ...

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        """Of the first record with this timestamp or a later one; the end if there is none."""
        ...

    def delete_before(self, partition: TopicPartition, offset: int) -> None: ...

    def cleaned(self, partition: TopicPartition) -> Cleaned | None:
        """None if the log does not know: then only times can show it (`delete.retention.ms`)."""
        ...

    def join(
        self, group: str, topics: Iterable[tuple[str, ...]], *, address: str = "", exactly_once: bool = True
    ) -> Member:
        """Take part in a group that shares the partitions of these topics; each tuple is shared out as one.

        The group's other members, and whoever looks at it, can see the address, if the log can keep it.
        Without `exactly_once` a log may do things twice after a failure, if it gains from that.
        """
        ...

    def groups(self) -> Mapping[str, GroupState]:
        """Every group that has a member alive, or a position."""
        ...

    def group(self, name: str) -> GroupState | None:
        """One of them."""
        ...

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Let the group stand at these positions and at no others; an error while it has members alive."""
        ...

    def note(self, name: str) -> str | None:
        """A small text kept in the log, such as a topology's fingerprint."""
        ...

    def write_note(self, name: str, text: str) -> None: ...

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """Retention and compaction, for about so long; True if there is more to do. For moments without work.

        `memory`: bytes for what compaction remembers; with less of it, it takes more passes.
        """
        ...

    def close(self) -> None: ...
