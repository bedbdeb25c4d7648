"""The bare loop: poll, process, and commit all partitions every 100 ms; outputs are partitioned by cached murmur2."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol

from streamtopo.logs import Log, Outcome
from streamtopo.partitioning import murmur2
from streamtopo.records import Batch, Columns, Position, TopicPartition

BATCH = 10_000
INTERVAL = 0.1
"""Seconds between commits."""

Send = Callable[[TopicPartition, Columns], None]


class Job(Protocol):
    def take(self, batch: Batch, send: Send) -> None: ...

    def flush(self, send: Send) -> None:
        """Send what was held back, just before a commit."""
        ...

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        """Write the stores: the log has committed."""
        ...


class Share(NamedTuple):
    """The share of one of several loops: each has its own group, and the partitions of its number."""

    number: int = 0
    loops: int = 1
    over: Callable[[], bool] = lambda: True
    """Called when there is nothing to do; it may wait for a moment."""

    @property
    def group(self) -> str:
        return f"bare-{self.number}"

    def has(self, partition: TopicPartition) -> bool:
        return partition.partition % self.loops == self.number


ALL = Share()


def run_bare(log: Log, topics: Iterable[str], job: Job, share: Share = ALL) -> None:
    member = log.join(share.group, [(topic,) for topic in topics])
    for partition in member.assignment():
        if share.has(partition):
            member.seek(partition, 0)
    positions: dict[TopicPartition, Position] = {}
    committed_at = time.monotonic()
    while True:
        batches = member.poll(BATCH * 4, 0.0)
        for batch in batches:
            job.take(batch, member.send)
            positions[batch.source] = Position(batch.next_offset)
        if batches and time.monotonic() - committed_at < INTERVAL:
            continue
        if not positions:
            if share.over():
                break
            continue
        job.flush(member.send)
        committed = member.commit(positions)
        assert committed.outcome is Outcome.DONE
        job.committed(committed.ends)
        positions, committed_at = {}, time.monotonic()
    member.leave()


class _Targets(dict[bytes, int]):
    """The partition of each key seen so far."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def __missing__(self, key: bytes) -> int:
        target = self[key] = murmur2(key) % self._partitions
        return target


_targets = cache(_Targets)


class Output:
    """A topic whose records are partitioned by key."""

    def __init__(self, log: Log, topic: str) -> None:
        count = log.topics()[topic].partitions
        self._target = _targets(count).__getitem__
        self._partitions = [TopicPartition(topic, number) for number in range(count)]

    def send(self, send: Send, keys: list[bytes], values: list[bytes], times: list[int]) -> None:
        if not keys:
            return
        targets = list(map(self._target, keys))
        if targets.count(targets[0]) == len(targets):
            send(self._partitions[targets[0]], Columns(keys, values, times))  # type: ignore[arg-type]
            return
        rows_of: list[list[int]] = [[] for _ in self._partitions]
        for row, target in enumerate(targets):
            rows_of[target].append(row)
        for partition, rows in zip(self._partitions, rows_of, strict=True):
            if rows:
                send(partition, Columns(_picked(keys, rows), _picked(values, rows), _picked(times, rows)))


def _picked(column: list[Any], rows: list[int]) -> list[Any]:
    return list(map(column.__getitem__, rows))
