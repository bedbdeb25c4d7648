"""Records of a topic for a service: nothing is read before it is asked for, and nothing is remembered in the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from streamtopo.errors import LogError
from streamtopo.hosting.waiting import Watch
from streamtopo.logs import Log
from streamtopo.records import Batch, Headers, TopicPartition
from streamtopo.serdes import Serde

_PAGE = 200
"""Records that are read at a time: as many wait, at most, for a slow consumer."""
PAUSE = 0.02
"""Seconds between two looks for new records, one for all consumers of a topic."""


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

    def ends(self) -> list[int]:
        """Of the partitions; others than before once there is something new."""
        return [self._log.end(part) for part in self._next]

    def next_page(self) -> list[Consumed]:
        """What is new, partition by partition; empty if nothing is. After an error the same is read again."""
        batches = [
            # What was deleted meanwhile cannot be read any more.
            self._log.read(part, max(offset, self._log.start(part)), _PAGE)
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
        for key, value, timestamp, offset, carried in rows:
            yield Consumed(key, value, timestamp, batch.source.partition, offset, carried)


class Arriving:
    """Records for an event loop. Who awaits one may give up, as `asyncio.wait_for` does, and nothing is lost."""

    def __init__(self, next_page: Callable[[], list[Consumed]], news: Watch, is_open: Callable[[], bool]) -> None:
        self._next_page = next_page
        self._news = news
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
                await self._news.wait_async(version)
        return self._waiting.popleft()

    async def _read(self) -> int:
        """Returns since when there may be something new."""
        try:
            version = self._news.version
            self._waiting.extend(await asyncio.to_thread(self._next_page))
            return version
        finally:
            self._reading = None
