"""The protocols of a log: topics with partitions, groups whose members share the work, and atomic commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from math import inf
from typing import NamedTuple, Protocol

from streamtopo.records import Batch, Columns, Position, TopicPartition

CLEANING_MEMORY = 32 << 20
"""Bytes that compaction may use by default."""


class Outcome(Enum):
    """How a commit ended. After UNKNOWN, `settle` makes sure that it is one of the other two."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class CommitResult(NamedTuple):
    """The outcome and, if it is DONE, the next offset of each partition that was written."""

    outcome: Outcome
    ends: Mapping[TopicPartition, int] = {}
    reason: str = ""


Revoking = Callable[[frozenset[TopicPartition]], object]


def ignored(partitions: frozenset[TopicPartition]) -> None:
    pass


class Member(Protocol):
    """One member of a group. Only one thread uses it."""

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        """Share these topics from now on. The topics of a tuple are assigned together, partition by partition."""
        ...

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member may work on now. They shrink at once when the group takes some away."""
        ...

    @property
    def placed(self) -> bool:
        """Whether the group has decided what this member may work on, even if that is nothing."""
        ...

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """The work on these partitions is committed and closed: other members may take them."""
        ...

    def poll(
        self, limit: int, timeout: float, paused: Container[TopicPartition] = (), revoking: Revoking = ignored
    ) -> list[Batch]:
        """Up to `limit` records of the partitions being read; wait up to `timeout` seconds for the first one.

        Every partition gets its turn. It may return early with nothing. A batch without records is a gap in the
        offsets. A group that cannot wait for `release` calls `revoking` before it takes partitions away: the last
        chance to commit the work on them, and to close it.
        """
        ...

    def ends(self) -> Mapping[TopicPartition, int]:
        """The end of each assigned partition (the next offset to be written), as last known; never beyond the log's."""
        ...

    def knows_end(self, partition: TopicPartition) -> bool:
        """Whether the end of this assigned partition is known; until then `ends` has a guess."""
        ...

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position] | None:
        """The group's positions. None while the commit of a dead member is undecided: ask again."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from this offset. No partition is read before its first seek."""
        ...

    def send(self, target: TopicPartition, columns: Columns) -> None:
        """Write records, which are visible only after `commit`."""
        ...

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        """The positions of the next commit, ahead of time: a remote log can store them while records are still sent."""
        ...

    def commit(self, positions: Mapping[TopicPartition, Position]) -> CommitResult:
        """Commit all sent records and these positions, or nothing. It fails if another member owns a partition now.

        Unless the outcome is DONE, the sent records are kept until `abort` or `settle`.
        """
        ...

    def abort(self) -> None:
        """Drop the records that were sent since the last commit."""
        ...

    def settle(self) -> None:
        """After an UNKNOWN outcome: return when the commit has either happened or can no longer happen."""
        ...

    def leave(self) -> None: ...


class Topic(NamedTuple):
    name: str
    partitions: int
    config: Mapping[str, str] = {}
    id: str = ""
    """Given by the log. A topic that is deleted and created again gets another one."""
    inherited: Mapping[str, str] = {}
    """Settings of the log that apply because the topic does not set them, if they are not the usual ones."""
    config_known: bool = True
    """False if we may not see the config, which is empty here."""

    def setting(self, name: str, usual: str) -> str:
        return self.config.get(name, self.inherited.get(name, usual))


class GroupState(NamedTuple):
    """A group as seen from outside: the partitions of each living member, and the positions of the group."""

    members: Mapping[str, frozenset[TopicPartition]]
    positions: Mapping[TopicPartition, Position]
    addresses: Mapping[str, str] = {}
    """Where members answer queries, if they do."""


class GroupProgress(NamedTuple):
    """In one partition."""

    position: int
    """The start of the partition if the group has none."""
    end: int
    """Of all records, also those that are not committed yet."""


class Cleaned(NamedTuple):
    """What compaction has removed: deletions before this offset, if their rows were already gone at this time."""

    offset: int = 0
    at: int = 0


class LazyBatch(Protocol):
    """Records of a partition, of which only those columns are decoded that are asked for."""

    @property
    def offsets(self) -> Sequence[int]: ...
    def timestamps(self) -> list[int]: ...
    def keys(self) -> list[bytes | None]: ...
    def headers(self, names: Collection[str]) -> dict[str, list[bytes | None]]:
        """For those of these names that occur, the value in each record: the last one, or None."""
        ...

    def columns(self) -> Columns: ...


class Log(Protocol):
    """Topics and their records. Several threads may use it."""

    id: str
    one_machine: bool
    """Whether all processes that share it run on this machine."""
    keeps_deletions: int
    """For how many milliseconds changelogs should keep deletions; 0 leaves that to the log's own settings."""

    def topics(self) -> Mapping[str, Topic]: ...

    def create(self, topic: Topic) -> None:
        """Create a topic. If it exists and is equal, nothing happens; another partition count or config is an error."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic with its records, owners and positions. One created later by this name is another topic."""
        ...

    def largest(self, topic: str) -> int:
        """How many bytes a record may have that is written to this topic; 0 if there is no limit."""
        ...

    def append(self, target: TopicPartition, columns: Columns) -> int:
        """Write these records now, without a group; return the next offset."""
        ...

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        """Committed records from this offset on, without a group. They are fewer than `limit` only at the end, or if
        they pass `most_bytes`: by at most one record, or a megabyte of small ones.
        """
        ...

    def scan(self, source: TopicPartition, start: int, end: int) -> Iterator[LazyBatch]:
        """The committed records from `start` to before `end`, in batches of at most a few megabytes."""
        ...

    def start(self, partition: TopicPartition) -> int: ...

    def end(self, partition: TopicPartition) -> int: ...

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        """The offset of the first record with this timestamp or a later one; the end if there is none."""
        ...

    def delete_before(self, partition: TopicPartition, offset: int) -> None: ...

    def cleaned(self, partition: TopicPartition) -> Cleaned | None:
        """None if the log does not know: then only the time can tell (`delete.retention.ms`)."""
        ...

    def join(
        self, group: str, topics: Iterable[tuple[str, ...]], *, address: str = "", exactly_once: bool = True
    ) -> Member:
        """Join a group that shares the partitions of these topics; the topics of a tuple are assigned together.

        The address can be seen by the other members and in `groups`, if the log can store it. Without `exactly_once`
        a log may write some records twice after a failure, if that makes it faster.
        """
        ...

    def groups(self) -> Mapping[str, GroupState]:
        """Every group that has a living member or a position."""
        ...

    def group(self, name: str) -> GroupState | None:
        """One of these groups."""
        ...

    def progress(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, GroupProgress]:
        """How far the group has got in these partitions. The ends are those of a moment after the positions."""
        ...

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Replace all positions of the group by these; an error while it has living members."""
        ...

    def note(self, name: str) -> str | None:
        """A short text that is stored in the log, such as the fingerprint of a topology."""
        ...

    def write_note(self, name: str, text: str) -> None: ...

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """Retention and compaction, for about `slice_ms`; True if there is more to do. Call it when idle.

        `memory` is how many bytes compaction may use for what it remembers; with less it needs more passes.
        """
        ...

    def close(self) -> None: ...
