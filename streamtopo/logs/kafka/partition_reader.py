"""Reads at any offset, without a group. Its one consumer fetches ahead of the readers."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from math import inf
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from streamtopo.errors import LogError
from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.errors import ClientErrors, explained, outside, reason_of
from streamtopo.logs.kafka.messages import at_end, batch_of, consumed, runs
from streamtopo.logs.kafka.read_ahead import ReadAhead, together
from streamtopo.logs.kafka.settings import PATIENCE, ClientSettings
from streamtopo.records import Batch, Columns, TopicPartition

_AHEAD = 100_000
_AHEAD_BYTES = 16 << 20
"""Messages of one partition, and their bytes, that may wait here while other partitions are read. Pausing the
partition earlier would waste fetches, of up to 60,000 small messages: the client drops what it fetched."""
_LONGEST_WAIT = 0.1
_FEW = 100
"""Messages of the first request if their bytes are limited, as their size is not known yet."""


class _PartitionRead:
    """A partition that is being read on."""

    def __init__(self, offset: int, end: int) -> None:
        self.next = offset
        """The offset after the last record that was returned."""
        self.fetched = offset
        self.end = end
        """The end of committed records when the cluster was last asked; it may have moved on."""
        self.ahead = ReadAhead()
        self.held = False


class PartitionReader:
    def __init__(self, settings: ClientSettings, admin: Admin) -> None:
        with explained("be read from"):
            self._consumer = Consumer(settings.reader() | {"error_cb": ClientErrors()})
        self._admin = admin
        self._places: dict[TopicPartition, _PartitionRead] = {}
        self._lock = threading.Lock()
        self._heard = 0.0
        self._length = inf
        """The average size of the last messages."""

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        """Committed records, up to their end at the time of the call."""
        with self._lock, explained(f"read {source}"):
            place = self._places.get(source)
            if place is None or place.next != offset:
                self._leave(source)
                end = self._admin.offsets.stable_end(source)
                self._check(source, offset, end)
                place = self._go_to(source, offset, end) if offset < end else None
            if limit <= 0 or place is None:
                return Batch(source, Columns([], [], []), [], offset)
            self._heard = time.monotonic()
            while place.ahead.records < limit and place.ahead.bytes < most_bytes and self._more(source, place):
                self._fetch(source, self._wanted(limit, most_bytes))
            return self._taken(source, place, place.ahead.take(limit, most_bytes))

    def _more(self, source: TopicPartition, place: _PartitionRead) -> bool:
        """Whether there are more records. The cluster is asked again only at the last known end."""
        if place.fetched >= place.end:
            place.end = self._admin.offsets.stable_end(source)
        return place.fetched < place.end

    def _wanted(self, limit: int, most_bytes: float) -> int:
        """How many messages to request, if they are as large as the last ones."""
        return limit if most_bytes == inf else max(_FEW, min(limit, int(most_bytes / self._length)))

    def close(self) -> None:
        with self._lock:
            self._consumer.close()

    def _check(self, source: TopicPartition, offset: int, end: int) -> None:
        start, last = self._admin.offsets.start(source), self._admin.offsets.end(source)
        if not start <= offset <= max(end, last):
            raise outside(source, offset, start, last)

    def _go_to(self, source: TopicPartition, offset: int, end: int) -> _PartitionRead:
        self._consumer.incremental_assign([ClientPartition(*source, offset)])
        with suppress(KafkaException):  # any request to the leader makes the client fetch now, not a second later
            self._consumer.get_watermark_offsets(ClientPartition(*source), _LONGEST_WAIT)
        place = self._places[source] = _PartitionRead(offset, end)
        return place

    def _leave(self, source: TopicPartition) -> None:
        if self._places.pop(source, None) is not None:
            self._consumer.incremental_unassign([ClientPartition(*source)])

    def _fetch(self, wanted: TopicPartition, limit: int) -> None:
        place = self._places[wanted]
        if place.held:
            self._consumer.resume([ClientPartition(*wanted)])
            place.held = False
        messages = consumed(self._consumer, limit, _LONGEST_WAIT)
        if messages:
            self._heard = time.monotonic()
            self._length = 1 + sum(map(len, messages)) / len(messages)
        elif time.monotonic() - self._heard > PATIENCE:
            raise LogError(f"no message of {wanted} arrived for {PATIENCE:.0f} s; check that the brokers are up")
        for source, run in runs(messages):
            if source in self._places:
                self._file(source, self._places[source], run, read=source == wanted)

    def _file(self, source: TopicPartition, place: _PartitionRead, run: list[Any], *, read: bool) -> None:
        if at_end(run[0]):
            place.fetched = run[0].offset()
            return
        if (error := run[0].error()) is not None:
            raise LogError(f"{source} cannot be read at offset {place.fetched}: {reason_of(error)}")
        place.ahead.add(batch_of(source, run))
        place.fetched = run[-1].offset() + 1
        if not read and not place.held and (place.ahead.records > _AHEAD or place.ahead.bytes > _AHEAD_BYTES):
            self._consumer.pause([ClientPartition(*source)])
            place.held = True

    def _taken(self, source: TopicPartition, place: _PartitionRead, batches: list[Batch]) -> Batch:
        place.next = batches[-1].next_offset if place.ahead.records else place.fetched
        if not place.ahead.records and place.fetched >= place.end:
            self._leave(source)
        return together(batches, place.next) if batches else Batch(source, Columns([], [], []), [], place.next)
