"""The member of a Faust worker in its group: what it reads and commits. Only the log thread of the consumer uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs import Log, Outcome
from streamtopo.records import Batch, Position, TopicPartition


class Fetched(NamedTuple):
    batches: list[Batch]
    starts: Mapping[TopicPartition, int]
    """Where each partition was before."""
    ends: Mapping[TopicPartition, int]


class Reader:
    """`reset` says where to read a partition without a committed position: "earliest" or "latest"."""

    def __init__(self, log: Log, group: str, reset: str) -> None:
        if reset not in ("earliest", "latest"):
            raise LogError(f'consumer_auto_offset_reset must be "earliest" or "latest", not "{reset}"')
        self._log = log
        self._reset = reset
        self._member = log.join(group, [])
        self._positions: dict[TopicPartition, int] = {}

    # -- the group

    def subscribe(self, topics: Mapping[str, int]) -> None:
        """Topics with the same number of partitions are assigned together: one worker gets the same numbers of each."""
        counts = sorted(set(topics.values()))
        self._member.subscribe(tuple(name for name in sorted(topics) if topics[name] == count) for count in counts)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._member.assignment()

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        for partition in partitions:
            self._positions.pop(partition, None)
        self._member.release(partitions)

    # -- reading

    def read(self, limit: int, timeout: float, partitions: frozenset[TopicPartition] | None) -> Fetched:
        """New records of these partitions, or of all."""
        paused = frozenset() if partitions is None else self._positions.keys() - partitions
        starts = dict(self._positions)
        batches = self._member.poll(limit, timeout, paused)
        self._positions.update((batch.source, batch.next_offset) for batch in batches)
        return Fetched(batches, starts, self._member.ends())

    def put_back(self, fetched: Fetched) -> None:
        """Read these records again, except in partitions with a seek in the meantime."""
        for batch in fetched.batches:
            if self._positions.get(batch.source) == batch.next_offset:
                self._go(batch.source, fetched.starts[batch.source])

    def seek(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Read from these offsets, or from the nearest ones that the log has."""
        for partition, offset in wanted.items():
            self._go(partition, min(max(offset, self._log.start(partition)), self._log.end(partition)))

    def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the committed offsets. A partition without one, or whose next record is gone, is read from `reset`."""
        partitions = list(partitions)
        committed = self._member.committed(partitions) or {}  # this log always knows
        for partition in partitions:
            start, end = self._log.start(partition), self._log.end(partition)
            offset = committed[partition].offset if partition in committed else -1
            self._go(partition, offset if start <= offset <= end else {"earliest": start, "latest": end}[self._reset])
        return {partition: committed[partition].offset if partition in committed else None for partition in partitions}

    def position(self, partition: TopicPartition) -> int | None:
        return self._positions.get(partition)

    def _go(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._member.seek(partition, offset)

    # -- the log

    def commit(self, offsets: Mapping[TopicPartition, int]) -> str:
        """Return the reason if it was refused. Then the records are read again: Faust promises at least once."""
        committed = self._member.commit({partition: Position(offset) for partition, offset in offsets.items()})
        if committed.outcome is Outcome.UNKNOWN:
            self._member.settle()
        return "" if committed.outcome is Outcome.DONE else committed.reason

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._log.start(partition) for partition in partitions}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._last(partition) for partition in partitions}

    def _last(self, partition: TopicPartition) -> int:
        """The offset after the last existing record: a recovery would wait forever for one that compaction removed."""
        start, end = self._log.start(partition), self._log.end(partition)
        step = 1
        while end - step > start:
            if offsets := self._log.read(partition, end - step, step).offsets:
                return offsets[-1] + 1
            step *= 2
        offsets = self._log.read(partition, start, end - start).offsets
        return offsets[-1] + 1 if offsets else start
