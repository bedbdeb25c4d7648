"""A log in memory, for tests and the Driver. It behaves as the other logs do, but ends with the process."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from math import inf

from streamtopo.errors import LogError
from streamtopo.logs import (
    CLEANING_MEMORY,
    Cleaned,
    CommitResult,
    GroupProgress,
    GroupState,
    Outcome,
    Revoking,
    Topic,
    ignored,
)
from streamtopo.logs.decoded import DecodedBatch, scanned
from streamtopo.logs.groups import SubscribedTopics, check_no_members, share_of
from streamtopo.logs.topics import check_equal, check_new
from streamtopo.records import Batch, Columns, Headers, Position, TopicPartition


class MemoryLog:
    one_machine = True

    def __init__(self, new_id: Callable[[], str] = lambda: os.urandom(16).hex()) -> None:
        """`new_id` names the log, its topics and its members."""
        self.new_id = new_id
        self.id = new_id()
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._groups: dict[str, _Group] = {}
        self._notes: dict[str, str] = {}
        self._changed = threading.Condition(threading.RLock())

    def topics(self) -> Mapping[str, Topic]:
        with self._changed:
            return dict(self._topics)

    def create(self, topic: Topic) -> None:
        with self._changed:
            if topic.name not in self._topics:
                check_new(topic)
            existing = self._topics.setdefault(topic.name, topic._replace(id=self.new_id()))
            check_equal(existing, topic)
            for partition in range(topic.partitions):
                self._partitions.setdefault(TopicPartition(topic.name, partition), _Partition())

    def delete(self, topic: str) -> None:
        with self._changed:
            if topic not in self._topics:
                raise LogError(
                    f'topic "{topic}" does not exist, so it cannot be deleted; list the topics: streamtopo topics list'
                )
            gone = {TopicPartition(topic, number) for number in range(self._topics.pop(topic).partitions)}
            for partition in gone:
                del self._partitions[partition]
            for group in self._groups.values():
                group.forget_partitions(gone)

    def largest(self, topic: str) -> int:
        return 0

    def append(self, target: TopicPartition, columns: Columns) -> int:
        with self._changed:
            end = self._partition(target).append(columns)
            self._changed.notify_all()
            return end

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        with self._changed:
            partition = self._partition(source)
            if most_bytes < inf:
                limit = partition.fitting(offset, limit, most_bytes)
            return partition.read(source, offset, limit)

    def scan(self, source: TopicPartition, start: int, end: int) -> Iterator[DecodedBatch]:
        return scanned(self, source, start, end)

    def start(self, partition: TopicPartition) -> int:
        return self._partition(partition).start

    def end(self, partition: TopicPartition) -> int:
        return self._partition(partition).end

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        with self._changed:
            return self._partition(partition).offset_at(timestamp)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        with self._changed:
            self._partition(partition).delete_before(offset)

    keeps_deletions = 0

    def cleaned(self, partition: TopicPartition) -> Cleaned:
        """It keeps all deletions."""
        return Cleaned()

    def compact(self, partition: TopicPartition) -> None:
        """Keep only the last record of each key; offsets do not change, so there are gaps."""
        with self._changed:
            self._partition(partition).compact()

    def join(
        self, group: str, topics: Iterable[tuple[str, ...]], *, address: str = "", exactly_once: bool = True
    ) -> MemoryMember:
        with self._changed:
            member = self._member(self._groups.setdefault(group, _Group()), topics)
            if address:
                member._group.addresses[member.id] = address
            return member

    def _member(self, group: _Group, topics: Iterable[tuple[str, ...]]) -> MemoryMember:
        return MemoryMember(self, group, topics)

    def groups(self) -> Mapping[str, GroupState]:
        with self._changed:
            states = {name: group.state() for name, group in sorted(self._groups.items())}
            return {name: state for name, state in states.items() if state.members or state.positions}

    def group(self, name: str) -> GroupState | None:
        return self.groups().get(name)

    def progress(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, GroupProgress]:
        with self._changed:
            known = self._groups[group].positions if group in self._groups else {}
            kept = {one: self._partition(one) for one in partitions}
            return {one: GroupProgress(known.get(one, Position(at.start)).offset, at.end) for one, at in kept.items()}

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        with self._changed:
            known = self._groups.setdefault(group, _Group())
            check_no_members(group, known.members)
            known.positions = dict(positions)

    def note(self, name: str) -> str | None:
        return self._notes.get(name)

    def write_note(self, name: str, text: str) -> None:
        self._notes[name] = text

    def clean(self, slice_ms: float = 10, memory: int = CLEANING_MEMORY) -> bool:
        """It keeps everything."""
        return False

    def close(self) -> None:
        pass

    def _partition(self, partition: TopicPartition) -> _Partition:
        try:
            return self._partitions[partition]
        except KeyError:
            raise LogError(f"partition {partition} does not exist; create the topic first") from None


class MemoryMember:
    """A member whose partitions others can take over at any time: `evict` simulates an expired lease."""

    def __init__(self, log: MemoryLog, group: _Group, topics: Iterable[tuple[str, ...]]) -> None:
        self.id = log.new_id()
        self._log = log
        self._group = group
        self._topics = tuple(topics)
        self._owned: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        self._sent: list[tuple[TopicPartition, Columns]] = []
        self._turn = 0
        self._seen: object = None
        self._shared: set[TopicPartition] = set()

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self._topics = tuple(topics)

    placed = True

    def assignment(self) -> frozenset[TopicPartition]:
        with self._log._changed:
            group = self._group
            group.members[self.id] = self._topics
            kept = {part for part, epoch in self._owned.items() if group.owners.get(part) == (self.id, epoch)}
            if len(kept) < len(self._owned):
                # Lost partitions are reported before they can be taken again: their stores are out of date by then.
                self._forget(self._owned.keys() - kept)
                return frozenset(kept)
            mine = self._share()
            for partition in mine - group.owners.keys():
                self._owned[partition] = group.take_over(partition, self.id)
            return frozenset(mine & self._owned.keys())

    def _share(self) -> set[TopicPartition]:
        """Computed again only when members, owners or topics have changed."""
        seen = (self._group.members.copy(), self._group.owners.copy(), self._log.topics())
        if seen != self._seen:
            self._seen = seen
            self._shared = share_of(self.id, seen[0], self._group.owners_of(), seen[2])
        return self._shared

    def _owns(self, partition: TopicPartition) -> bool:
        return self._group.owners.get(partition) == (self.id, self._owned.get(partition))

    def _lost(self, partition: TopicPartition) -> bool:
        """Others may own it now, and may have deleted what they have read. A partition that is gone is an error."""
        return not self._owns(partition) and partition in self._log._partitions

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            self._owned.pop(partition, None)
            self._next.pop(partition, None)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        with self._log._changed:
            partitions = list(partitions)
            for partition in partitions:
                if self._owns(partition):
                    del self._group.owners[partition]
            self._forget(partitions)
            self._log._changed.notify_all()

    def poll(
        self, limit: int, timeout: float, paused: Container[TopicPartition] = (), revoking: Revoking = ignored
    ) -> list[Batch]:
        with self._log._changed:
            batches = self._read(limit, paused)
            if not batches and timeout:
                self._log._changed.wait(timeout)
                batches = self._read(limit, paused)
            return batches

    def _read(self, limit: int, paused: Container[TopicPartition]) -> list[Batch]:
        partitions = sorted(part for part in self._next if part not in paused and not self._lost(part))
        self._turn += 1
        batches = []
        for place in range(len(partitions)):
            partition = partitions[(place + self._turn) % len(partitions)]
            share = -(-limit // (len(partitions) - place))
            batch = self._log.read(partition, self._next[partition], share)
            if batch.next_offset > self._next[partition]:
                limit -= len(batch.offsets)
                batches.append(batch)
            if limit <= 0:
                break
        # Only now: a poll that fails returns nothing, so nothing may be skipped.
        self._next.update((batch.source, batch.next_offset) for batch in batches)
        return batches

    def ends(self) -> Mapping[TopicPartition, int]:
        return {partition: self._log.end(partition) for partition in self._next}

    def knows_end(self, partition: TopicPartition) -> bool:
        return True

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position]:
        positions = self._group.positions
        return {partition: positions[partition] for partition in partitions if partition in positions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._next[partition] = offset

    def send(self, target: TopicPartition, columns: Columns) -> None:
        self._log._partition(target)
        self._sent.append((target, columns))

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        """They are written by `commit`."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> CommitResult:
        with self._log._changed:
            for partition in positions:
                if not self._owns(partition):
                    return CommitResult(Outcome.NOT_DONE, reason=f"{partition} belongs to another member now")
            for target, _ in self._sent:
                self._log._partition(target)
            sent, self._sent = self._sent, []
            ends = {target: self._log.append(target, columns) for target, columns in sent}
            self._group.positions.update(positions)
            return CommitResult(Outcome.DONE, ends)

    def abort(self) -> None:
        self._sent = []

    def settle(self) -> None:
        self._sent = []

    def leave(self) -> None:
        with self._log._changed:
            self._group.forget(self.id)
            self._log._changed.notify_all()

    def evict(self) -> None:
        """What a log does to a member that seems dead, whether or not it is: its work goes to the others."""
        self.leave()


class _Partition:
    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.offsets: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] | None = None

    def append(self, columns: Columns) -> int:
        rows = len(columns.keys)
        if columns.headers is not None and self.headers is None:
            self.headers = [()] * len(self.keys)
        if self.headers is not None:
            self.headers.extend(columns.headers if columns.headers is not None else [()] * rows)
        self.keys.extend(columns.keys)
        self.values.extend(columns.values)
        self.timestamps.extend(columns.timestamps)
        self.offsets.extend(range(self.end, self.end + rows))
        self.end += rows
        return self.end

    def read(self, source: TopicPartition, offset: int, limit: int) -> Batch:
        if not self.start <= offset <= self.end:
            raise LogError(
                f"offset {offset} of {source} is not in the log (it has {self.start} to {self.end}); "
                "reset the group's position to one of these (streamtopo reset)"
            )
        first = bisect_left(self.offsets, offset)
        rows = slice(first, first + limit)
        offsets = self.offsets[rows]
        whole = first + limit >= len(self.offsets)
        following = offsets[-1] + 1 if offsets else offset
        columns = Columns(
            self.keys[rows],
            self.values[rows],
            self.timestamps[rows],
            None if self.headers is None else self.headers[rows],
        )
        return Batch(source, columns, offsets, self.end if whole else following)

    def fitting(self, offset: int, limit: int, most_bytes: float) -> int:
        """How many records from this offset on reach `most_bytes`; `limit` if even that many do not."""
        first = bisect_left(self.offsets, offset)
        size = 0
        for row in range(first, min(first + limit, len(self.offsets))):
            size += len(self.keys[row] or b"") + len(self.values[row] or b"")
            if size >= most_bytes:
                return row - first + 1
        return limit

    def offset_at(self, timestamp: int) -> int:
        times = zip(self.offsets, self.timestamps, strict=True)
        return next((offset for offset, time in times if time >= timestamp), self.end)

    def delete_before(self, offset: int) -> None:
        self.start = min(max(offset, self.start), self.end)
        self._keep(range(bisect_left(self.offsets, self.start), len(self.offsets)))

    def compact(self) -> None:
        # A record without a key replaces no other.
        last = {row if key is None else key: row for row, key in enumerate(self.keys)}
        self._keep(sorted(last.values()))

    def _keep(self, rows: Iterable[int]) -> None:
        rows = list(rows)
        self.offsets = [self.offsets[row] for row in rows]
        self.keys = [self.keys[row] for row in rows]
        self.values = [self.values[row] for row in rows]
        self.timestamps = [self.timestamps[row] for row in rows]
        self.headers = None if self.headers is None else [self.headers[row] for row in rows]


class _Group:
    def __init__(self) -> None:
        self.members: dict[str, SubscribedTopics] = {}
        self.owners: dict[TopicPartition, tuple[str, int]] = {}
        self.positions: dict[TopicPartition, Position] = {}
        self.addresses: dict[str, str] = {}
        self.epoch = 0

    def owners_of(self) -> dict[TopicPartition, str]:
        return {partition: member for partition, (member, _) in self.owners.items()}

    def state(self) -> GroupState:
        owners = self.owners_of().items()
        owned = {member: frozenset(part for part, owner in owners if owner == member) for member in self.members}
        return GroupState(owned, dict(self.positions), dict(self.addresses))

    def take_over(self, partition: TopicPartition, member: str) -> int:
        self.epoch += 1
        self.owners[partition] = (member, self.epoch)
        return self.epoch

    def forget(self, member: str) -> None:
        self.members.pop(member, None)
        self.addresses.pop(member, None)
        self.owners = {part: owner for part, owner in self.owners.items() if owner[0] != member}

    def forget_partitions(self, gone: set[TopicPartition]) -> None:
        """A topic that is created later by the same name is another topic."""
        self.owners = {part: owner for part, owner in self.owners.items() if part not in gone}
        self.positions = {part: position for part, position in self.positions.items() if part not in gone}
