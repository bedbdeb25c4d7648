"""Records that are appended exactly once: one transaction writes them and, to another topic, their number."""

from __future__ import annotations

import time
from collections.abc import Iterable

from streamtopo.errors import LogError
from streamtopo.logs import Outcome, Topic
from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.group.writers import TransactionalWriter
from streamtopo.logs.kafka.partition_reader import PartitionReader
from streamtopo.logs.kafka.settings import ClientSettings
from streamtopo.records import Columns, TopicPartition
from streamtopo.wall_clock import wall_clock

NUMBERS = TopicPartition("__streamtopo-appended", 0)
"""The last number of each name. It has its own topic, as an open transaction delays the readers of a topic."""
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000"}
_WITHIN_MS = 300_000
"""For one transaction. Readers of a topic wait this long for the transaction of an appender that was killed."""
_PAUSE = 0.05


class Appender:
    def __init__(self, settings: ClientSettings, admin: Admin, reader: PartitionReader, name: str) -> None:
        self._admin = admin
        self._reader = reader
        self._name = name
        admin.topics.create(Topic(NUMBERS.topic, 1, _CONFIG))
        self._transactions = TransactionalWriter(settings.producer(f"streamtopo-{name}", within_ms=_WITHIN_MS))

    def number(self) -> int:
        """The last number that was appended, or 0. It waits for transactions that are open in the topic."""
        found, position, end = 0, self._admin.offsets.start(NUMBERS), self._admin.offsets.end(NUMBERS)
        while position < end:
            batch = self._reader.read(NUMBERS, position, 1000)
            for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
                found = int(value or 0) if key == self._name.encode() else found
            if batch.next_offset == position:
                time.sleep(_PAUSE)
            position = batch.next_offset
        return found

    def append(self, records: Iterable[tuple[TopicPartition, Columns]], number: int) -> bool:
        """Append all records or none; none if this number, or a higher one, was appended before. True if it did.

        1. Begin a transaction. Those of earlier appenders of this name were ended before; if a later appender
           starts now, this transaction fails.
        2. Read the last number. It stays the last one until the transaction ends, or the transaction fails.
        3. Write the records and the number, and commit.
        """
        self._transactions.begin()
        if number <= self.number():
            return False
        for target, columns in records:
            self._transactions.send(target, columns)
        note = Columns([self._name.encode()], [b"%d" % number], [wall_clock()])
        self._transactions.send(NUMBERS, note)
        committed = self._transactions.commit({}, None)
        if committed.outcome is not Outcome.DONE:
            self._transactions.settle()
            if self.number() < number:
                raise LogError(f"the records could not be written to Kafka in one transaction: {committed.reason}")
        return True

    def close(self) -> None:
        """Drop what was not committed."""
        self._transactions.close()
