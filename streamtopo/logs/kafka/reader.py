"""Reading at any offset, without a group: one consumer, whose fetches run ahead of those who read on."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from math import inf
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from streamtopo.errors import LogError
from streamtopo.logs.kafka.admin import Admin
from streamtopo.logs.kafka.ahead import Ahead, together
from streamtopo.logs.kafka.failing import Complaints, explained, outside, reason_of
from streamtopo.logs.kafka.messages import at_end, batch_of, consumed, runs
from streamtopo.logs.kafka.settings import PATIENCE, Settings
from streamtopo.records import Batch, Columns, TopicPartition

_AHEAD = 100_000
_AHEAD_BYTES = 16 << 20
"""Messages of one partition, and bytes, that may wait here while others are read: the client throws away what it has
fetched of a partition that is told to pause, and a fetch brings 60,000 small ones."""
_LONGEST_WAIT = 0.1
_FEW = 100
"""Messages to ask for where their bytes are limited, before it is known how many these may be."""


class _Place:
    """A partition that is being read on."""

    def __init__(self, offset: int, end: int) -> None:
        self.next = offset
        """What was handed out ends here."""
        self.fetched = offset
        self.end = end
        """What was committed when somebody asked last ends here, or further on."""
        self.ahead = Ahead()
        self.held = False


class Reader:
    def __init__(self, settings: Settings, admin: Admin) -> None:
        with explained("be read from"):
            self._consumer = Consumer(settings.reader() | {"error_cb": Complaints()})
        self._admin = admin
        self._places: dict[TopicPartition, _Place] = {}
        self._lock = threading.Lock()
        self._heard = 0.0
        self._length = inf
        """Of the last messages, on average."""

    def read(self, source: TopicPartition, offset: int, limit: int, most_bytes: float = inf) -> Batch:
        """Up to the end that committed records have now."""
        with self._lock, explained(f"read {source}"):
            place = self._places.get(source)
            if place is None or place.next != offset:
                self._leave(source)
                end = self._admin.stable_end(source)
                self._check(source, offset, end)
                place = self._go_to(source, offset, end) if offset < end else None
            if limit <= 0 or place is None:
                return Batch(source, Columns([], [], []), [], offset)
            self._heard = time.monotonic()
            while place.ahead.records < limit and place.ahead.bytes < most_bytes and self._more(source, place):
                self._fetch(source, self._wanted(limit, most_bytes))
            return self._taken(source, place, place.ahead.take(limit, most_bytes))

    def _more(self, source: TopicPartition, place: _Place) -> bool:
        """The cluster is asked only when all is there that it had the last time."""
        if place.fetched >= place.end:
            place.end = self._admin.stable_end(source)
        return place.fetched < place.end

    def _wanted(self, limit: int, most_bytes: float) -> int:
        """Messages to ask for, if they are as long as the last ones."""
        return limit if most_bytes == inf else max(_FEW, min(limit, int(most_bytes / self._length)))

    def close(self) -> None:
        with self._lock:
            self._consumer.close()

    def _check(self, source: TopicPartition, offset: int, end: int) -> None:
        start, last = self._admin.start(source), self._admin.end(source)
        if not start <= offset <= max(end, last):
            raise outside(source, offset, start, last)

    def _go_to(self, source: TopicPartition, offset: int, end: int) -> _Place:
        self._consumer.incremental_assign([Place(*source, offset)])
        with suppress(KafkaException):  # whatever is asked of the leader makes the client fetch now, not a second later
            self._consumer.get_watermark_offsets(Place(*source), _LONGEST_WAIT)
        place = self._places[source] = _Place(offset, end)
        return place

    def _leave(self, source: TopicPartition) -> None:
        if self._places.pop(source, None) is not None:
            self._consumer.incremental_unassign([Place(*source)])

    def _fetch(self, wanted: TopicPartition, limit: int) -> None:
        place = self._places[wanted]
        if place.held:
            self._consumer.resume([Place(*wanted)])
            place.held = False
        messages = consumed(self._consumer, limit, _LONGEST_WAIT)
        if messages:
            self._heard = time.monotonic()
            self._length = 1 + sum(map(len, messages)) / len(messages)
        elif time.monotonic() - self._heard > PATIENCE:
            raise LogError(f"nothing of {wanted} came for {PATIENCE:.0f} s; look whether the brokers are up")
        for source, run in runs(messages):
            if source in self._places:
                self._file(source, self._places[source], run, read=source == wanted)

    def _file(self, source: TopicPartition, place: _Place, run: list[Any], *, read: bool) -> None:
        if at_end(run[0]):
            place.fetched = run[0].offset()
            return
        if (error := run[0].error()) is not None:
            raise LogError(f"{source} cannot be read on at {place.fetched}: {reason_of(error)}")
        place.ahead.add(batch_of(source, run))
        place.fetched = run[-1].offset() + 1
        if not read and not place.held and (place.ahead.records > _AHEAD or place.ahead.bytes > _AHEAD_BYTES):
            self._consumer.pause([Place(*source)])
            place.held = True

    def _taken(self, source: TopicPartition, place: _Place, batches: list[Batch]) -> Batch:
        place.next = batches[-1].next_offset if place.ahead.records else place.fetched
        if not place.ahead.records and place.fetched >= place.end:
            self._leave(source)
        return together(batches, place.next) if batches else Batch(source, Columns([], [], []), [], place.next)
