"""Reads records of a topic for a service, on demand only. No position is stored in the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from streamtopo.errors import LogError
from streamtopo.hosting.queries.waiting import Poller
from streamtopo.logs import Log
from streamtopo.records import Batch, Headers, TopicPartition
from streamtopo.serdes import BYTES, Serde, SerdeLike, serde_of
from streamtopo.topology import Topology
from streamtopo.topology.topic_serdes import read_or_written

_PAGE_SIZE = 200
"""Maximum number of records that are read at once from a partition, and that wait for a slow consumer."""
POLL_INTERVAL = 0.02
"""Seconds between two checks for new records, which all consumers of a topic share."""


class Consumed(NamedTuple):
    key: Any
    value: Any
    timestamp: int
    partition: int
    offset: int
    headers: Headers


class TopicTail:
    """A position in a topic. Call `next_page` repeatedly."""

    def __init__(self, log: Log, topic: str, serdes: tuple[Serde, Serde], *, from_beginning: bool) -> None:
        self._log = log
        self._serdes = serdes
        topics = log.topics()
        if topic not in topics:
            names = ", ".join(sorted(topics)) or "none"
            raise LogError(f'there is no topic "{topic}" to consume; the log has {names}')
        parts = [TopicPartition(topic, number) for number in range(topics[topic].partitions)]
        self._next = {part: log.start(part) if from_beginning else log.end(part) for part in parts}

    def ends(self) -> list[int]:
        """Return the ends of the partitions, which change when there are new records."""
        return [self._log.end(part) for part in self._next]

    def next_page(self) -> list[Consumed]:
        """Return the new records, by partition; empty if there are none. After an error, they are read again."""
        batches = [
            # Records that were deleted in the meantime are skipped.
            self._log.read(part, max(offset, self._log.start(part)), _PAGE_SIZE)
            for part, offset in self._next.items()
            if self._log.end(part) > offset
        ]
        page = [record for batch in batches for record in self._records(batch)]
        self._next.update((batch.source, batch.next_offset) for batch in batches)
        return page

    def _records(self, batch: Batch) -> Iterator[Consumed]:
        columns = batch.columns
        keys = self._serdes[0].decode_column(columns.keys)
        values = self._serdes[1].decode_column(columns.values)
        headers = columns.headers or [()] * len(keys)
        rows = zip(keys, values, columns.timestamps, batch.offsets, headers, strict=True)
        for key, value, timestamp, offset, record_headers in rows:
            yield Consumed(key, value, timestamp, batch.source.partition, offset, record_headers)


def tail_of(
    topology: Topology,
    log: Log,
    topic: str,
    key: SerdeLike | None,
    value: SerdeLike | None,
    *,
    from_beginning: bool,
) -> TopicTail:
    """Return a tail with the given serdes, else those that the topology declares, else bytes."""
    keys, values = next(read_or_written(topology, topic), (BYTES, BYTES))
    serdes = (keys if key is None else serde_of(key, key=True), values if value is None else serde_of(value))
    return TopicTail(log, topic, serdes, from_beginning=from_beginning)


class AsyncRecords:
    """Records for an event loop. No record is lost if awaiting one is cancelled, as `asyncio.wait_for` does."""

    def __init__(self, next_page: Callable[[], list[Consumed]], poller: Poller, is_open: Callable[[], bool]) -> None:
        self._next_page = next_page
        self._poller = poller
        self._is_open = is_open
        self._waiting: deque[Consumed] = deque()
        self._reading: asyncio.Task[int] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Consumed:
        while not self._waiting:
            if not self._is_open():
                raise StopAsyncIteration
            self._reading = self._reading or asyncio.create_task(self._read())
            version = await asyncio.shield(self._reading)
            if not self._waiting:
                await self._poller.wait_async(version)
        return self._waiting.popleft()

    async def _read(self) -> int:
        """Read a page. Return the poller's version from before, after which there can be new records."""
        try:
            version = self._poller.version
            self._waiting.extend(await asyncio.to_thread(self._next_page))
            return version
        finally:
            self._reading = None
