"""Writes records of a service to topics: a thread appends them in batches, in the order in which they were sent."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import queue
import threading
from collections.abc import Generator
from itertools import count
from typing import Any, NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, Headers, TopicPartition, check_timestamp
from streamtopo.serdes import Serde, serde_of
from streamtopo.topology import Topology
from streamtopo.topology.topic_serdes import read_or_written
from streamtopo.wall_clock import wall_clock

logger = logging.getLogger("streamtopo")

_MAX_WAITING = 100_000
_MAX_BATCH = 5_000


class Delivery(concurrent.futures.Future[int]):
    """The offset of a record, once it is in the log: wait with `result()` or `await`."""

    def __await__(self) -> Generator[Any, None, int]:
        return asyncio.wrap_future(self).__await__()


class _PendingRecord(NamedTuple):
    target: TopicPartition
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    delivery: Delivery


class Producer:
    """Encodes records with the serdes that the topology declares for the topic, else with those of their types."""

    def __init__(self, topology: Topology, log: Log) -> None:
        self._topology = topology
        self._log = log
        self._round_robin = count()
        self._partitions: dict[str, int] = {}
        self._waiting: queue.Queue[_PendingRecord | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def produce(
        self, topic: str, value: Any, key: Any, timestamp: int | None, headers: Headers, partition: int | None
    ) -> Delivery:
        now = wall_clock() if timestamp is None else timestamp
        check_timestamp(now, "the record has")
        serdes = next(read_or_written(self._topology, topic), (None, None))
        data = _encoded(serdes[0], key, key=True)
        count = self._partition_count(topic)
        if partition is None:
            (inner,) = serdes[0].inner_keys([data]) if serdes[0] else [data]
            partition = partition_of(inner, count, next(self._round_robin))
        target = TopicPartition(topic, partition)
        record = _checked(_PendingRecord(target, data, _encoded(serdes[1], value), now, tuple(headers), Delivery()))
        with self._lock:
            if self._closed:
                raise LogError(f'a record for topic "{topic}" was sent after the app was closed')
            if self._waiting.qsize() >= _MAX_WAITING:
                raise LogError(f"{_MAX_WAITING} records are waiting for the log; await some deliveries")
            self._waiting.put(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="streamtopo producer", daemon=True)
                self._thread.start()
        return record.delivery

    def close(self, timeout: float | None) -> None:
        """Refuse new records, and wait until the others are written."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(timeout)

    # -- inside

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partitions:
            topics = self._log.topics()
            if topic not in topics:
                raise LogError(
                    f'topic "{topic}" does not exist; create it first: streamtopo topics create {topic} --partitions 4'
                )
            self._partitions[topic] = topics[topic].partitions
        return self._partitions[topic]

    def _work(self) -> None:
        while (record := self._waiting.get()) is not None:
            records = [record]
            while len(records) < _MAX_BATCH and not self._waiting.empty():
                if (more := self._waiting.get()) is None:
                    self._waiting.put(None)
                    break
                records.append(more)
            by_target: dict[TopicPartition, list[_PendingRecord]] = {}
            for one in records:
                by_target.setdefault(one.target, []).append(one)
            for target, waiting in by_target.items():
                self._append(target, waiting)

    def _append(self, target: TopicPartition, records: list[_PendingRecord]) -> None:
        headers = [one.headers for one in records]
        columns = Columns(
            [one.key for one in records],
            [one.value for one in records],
            [one.timestamp for one in records],
            headers if any(headers) else None,
        )
        try:
            end = self._log.append(target, columns)
        except Exception as error:
            logger.error("%d records for %s could not be written: %s", len(records), target, error)
            for one in records:
                _complete(one.delivery, error)
        else:
            for offset, one in enumerate(records, end - len(records)):
                _complete(one.delivery, offset)


def _checked(record: _PendingRecord) -> _PendingRecord:
    """Refuse what the log cannot store: otherwise the other records of its batch would fail, too."""
    if not all(isinstance(given, bytes | None) for given in (record.key, record.value)):
        raise LogError(f"a record for {record.target} has a key or value that its serde did not encode as bytes")
    if record.timestamp < -1 << 63:
        raise LogError(f"a record for {record.target} has the timestamp {record.timestamp}; give milliseconds")
    for header in record.headers:
        if not _is_header(header):
            raise LogError(f"a record for {record.target} has the header {header!r:.80}; give a str and bytes, or None")
    return record


def _is_header(given: Any) -> bool:
    match given:
        case (str(name), bytes() | None) if isinstance(given, tuple):
            return not any(
                "\ud800" <= character <= "\udfff" for character in name
            )  # surrogates cannot be encoded as UTF-8
    return False


def _complete(delivery: Delivery, outcome: int | Exception) -> None:
    """Set the result, unless the delivery was cancelled; the record was written in any case."""
    if not delivery.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        delivery.set_exception(outcome)
    else:
        delivery.set_result(outcome)


def _encoded(serde: Serde | None, value: Any, *, key: bool = False) -> bytes | None:
    (data,) = (serde or serde_of(type(value), key=key)).encode_column([value]) if value is not None else (None,)
    return data
