"""Faust's producer on the embedded log: records wait while earlier ones are written, and are then written together."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from itertools import count
from typing import Any, NamedTuple

from faust.exceptions import ImproperlyConfigured, ProducerSendError
from faust.transport import base
from faust.types import TP, AppT, HeadersArg, RecordMetadata
from mode import Service

from streamtopo.errors import LogError, StreamtopoError
from streamtopo.integrations.faust.log_thread import LogThread
from streamtopo.integrations.faust.topics import Topics, TopicsMade
from streamtopo.logs import Member, Outcome
from streamtopo.records import Columns, Headers, TopicPartition
from streamtopo.wall_clock import wall_clock

MOST = 10_000
"""Records that may wait; beyond that, `send` waits too."""


class Waiting(NamedTuple):
    target: TopicPartition
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    written: asyncio.Future[RecordMetadata]


class Producer(TopicsMade, base.Producer):
    _member: Member

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop | None = None, **kwargs: Any) -> None:
        if transport.app.conf.producer_threaded:
            raise ImproperlyConfigured(
                "producer_threaded is for Kafka: streamtopo:// writes in a thread anyway; omit it"
            )
        super().__init__(transport, loop=loop, **kwargs)

    def __post_init__(self) -> None:
        self._log_thread = LogThread("faust-producer")
        self._waiting: list[Waiting] = []
        self._failure: BaseException | None = None
        self._more, self._room, self._settled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._settled.set()

    async def on_start(self) -> None:
        await super().on_start()
        transport: Any = self.transport
        app: AppT = self.app
        self._log = await self._log_thread.do(transport.open_log)
        self.exit_stack.callback(self._log.close)
        self.exit_stack.callback(self._log_thread.close)
        self._topics = Topics(app, self._log)
        # It reads nothing: it is used for commits to several partitions.
        self._member = await self._log_thread.do(self._log.join, app.conf.id, [])

    async def on_stop(self) -> None:
        await self.flush()
        await super().on_stop()

    # -- topics

    def key_partition(self, topic: str, key: bytes | None) -> TP:
        return TP(topic, self._topics.partition(topic, key))

    def supports_headers(self) -> bool:
        return True

    # -- records

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: HeadersArg | None,
        *,
        transactional_id: str | None = None,
    ) -> Awaitable[RecordMetadata]:
        """Return when the record waits to be written. The returned future is done when it has been written."""
        given = list(headers.items() if isinstance(headers, Mapping) else headers or ())
        self.app.on_produce_message.send(key=key, value=value, partition=partition, timestamp=timestamp, headers=given)
        while len(self._waiting) >= MOST and not self._failure:
            self._room.clear()
            await self._room.wait()
        if self._failure:
            raise ProducerSendError(f"nothing can be written after a failure: {self._failure}")
        time_ms = int(timestamp * 1000) if timestamp else wall_clock()
        written: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        target = self._target(topic, key, partition)
        self._waiting.append(_checked(Waiting(target, key, value, time_ms, tuple(given), written)))
        self._settled.clear()
        self._more.set()
        return written

    def _target(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        try:
            known = self._topics.ensure(topic)
            number = self._topics.partition(topic, key) if partition is None else partition
        except StreamtopoError as error:
            raise ProducerSendError(str(error)) from error
        if not 0 <= number < known:
            raise ProducerSendError(f'topic "{topic}" has {known} partitions, so there is no partition {number}')
        return TopicPartition(topic, number)

    async def send_and_wait(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: HeadersArg | None,
        *,
        transactional_id: str | None = None,
    ) -> RecordMetadata:
        return await (await self.send(topic, key, value, partition, timestamp, headers))

    async def flush(self) -> None:
        await self.buffer.flush()
        await self._settled.wait()

    @Service.task
    async def _write_what_waits(self) -> None:
        try:
            while True:
                await self._more.wait()
                await self._write()
        except Exception as error:
            self._failure = error
            raise
        finally:
            for event in (self._settled, self._room):
                event.set()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._more.clear()
        self._room.set()
        try:
            written = await self._log_thread.do(self._commit, waiting)
        except Exception as error:
            for record in waiting + self._waiting:
                if not record.written.done():
                    record.written.set_exception(ProducerSendError(str(error)))
            raise
        for record, metadata in zip(waiting, written, strict=True):
            if not record.written.done():
                record.written.set_result(metadata)
        if not self._waiting:
            self._settled.set()

    def _commit(self, waiting: list[Waiting]) -> list[RecordMetadata]:
        """Write all records or none; return the place of each, in the given order."""
        by_target: dict[TopicPartition, list[Waiting]] = defaultdict(list)
        for record in waiting:
            by_target[record.target].append(record)
        for target, records in by_target.items():
            self._member.send(target, _columns(records))
        committed = self._member.commit({})
        if committed.outcome is not Outcome.DONE:
            raise LogError(f"records were not written: {committed.reason}")
        offsets = {target: count(committed.ends[target] - len(records)) for target, records in by_target.items()}
        return [
            RecordMetadata(*target, TP(*target), next(offsets[target]), timestamp, 0)
            for target, _, _, timestamp, _, _ in waiting
        ]


def _checked(record: Waiting) -> Waiting:
    """Refuse a record that the log cannot store: later, all records of its commit would fail."""
    if not all(isinstance(given, bytes | None) for given in (record.key, record.value)):
        raise ProducerSendError(f"a record for {record.target} has a key or value that is not bytes; give a serializer")
    if not all(isinstance(name, str) and isinstance(value, bytes | None) for name, value in record.headers):
        raise ProducerSendError(f"a record for {record.target} has headers that are not pairs of str and bytes or None")
    if not -1 << 63 <= record.timestamp < 1 << 63:
        raise ProducerSendError(f"a record for {record.target} has a wrong timestamp; give it in seconds")
    return record


def _columns(records: list[Waiting]) -> Columns:
    _, keys, values, timestamps, headers, _ = map(list, zip(*records, strict=True))
    return Columns(keys, values, timestamps, headers if any(headers) else None)
