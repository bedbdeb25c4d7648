"""Records of a topic for a service: nothing is read before it is asked for, and nothing is remembered in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.records import Batch, Headers, TopicPartition
from streamtopo.serdes import Serde

_PAGE = 200
"""Records that are read at a time: as many wait, at most, for a slow consumer."""
PAUSE = 0.02
"""Seconds between two looks for news."""


class Consumed(NamedTuple):
    key: Any
    value: Any
    timestamp: int
    partition: int
    offset: int
    headers: Headers


class Tail:
    """A place in a topic; `next_page` is called again and again."""

    def __init__(self, log: Log, topic: str, serdes: tuple[Serde, Serde], *, from_beginning: bool) -> None:
        self._log = log
        self._serdes = serdes
        topics = log.topics()
        if topic not in topics:
            names = ", ".join(sorted(topics)) or "none"
            raise LogError(f'there is no topic "{topic}" to consume; the log has {names}')
        parts = [TopicPartition(topic, number) for number in range(topics[topic].partitions)]
        self._next = {part: log.start(part) if from_beginning else log.end(part) for part in parts}

    def next_page(self) -> list[Consumed]:
        """What is new, partition by partition; empty if nothing is."""
        return [record for part, offset in list(self._next.items()) for record in self._read(part, offset)]

    def _read(self, part: TopicPartition, offset: int) -> Iterator[Consumed]:
        if self._log.end(part) <= offset:
            return iter(())
        # What was deleted meanwhile cannot be read any more.
        batch = self._log.read(part, max(offset, self._log.start(part)), _PAGE)
        self._next[part] = batch.next_offset
        return self._records(batch)

    def _records(self, batch: Batch) -> Iterator[Consumed]:
        columns = batch.columns
        keys = self._serdes[0].decode_column(columns.keys)
        values = self._serdes[1].decode_column(columns.values)
        headers = columns.headers or [()] * len(keys)
        rows = zip(keys, values, columns.timestamps, batch.offsets, headers, strict=True)
        for key, value, timestamp, offset, carried in rows:
            yield Consumed(key, value, timestamp, batch.source.partition, offset, carried)
