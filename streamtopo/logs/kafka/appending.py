"""Records that are appended once: one transaction has them and, in a topic of its own, the number they came under."""

from __future__ import annotations

import time
from collections.abc import Iterable

from streamtopo.errors import LogError
from streamtopo.logs import Outcome, Topic
from streamtopo.logs.kafka.admin import Admin
from streamtopo.logs.kafka.reader import Reader
from streamtopo.logs.kafka.settings import Settings
from streamtopo.logs.kafka.transactions import Transactions
from streamtopo.records import Columns, TopicPartition

NUMBERS = TopicPartition("__streamtopo-appended", 0)
"""The last number of each name; a topic of its own, as what is open in it holds its readers up."""
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000"}
_WITHIN_MS = 300_000
"""For one transaction; as long, readers of a topic wait for what one that was killed, and not repeated, had begun."""
_PAUSE = 0.05


class Appender:
    def __init__(self, settings: Settings, admin: Admin, reader: Reader, name: str) -> None:
        self._admin = admin
        self._reader = reader
        self._name = name
        admin.create(Topic(NUMBERS.topic, 1, _CONFIG))
        self._transactions = Transactions(settings.producer(f"streamtopo-{name}", within_ms=_WITHIN_MS))

    def number(self) -> int:
        """The last one that was appended; 0 if none was. What others have open in the topic is waited for."""
        found, position, end = 0, self._admin.start(NUMBERS), self._admin.end(NUMBERS)
        while position < end:
            batch = self._reader.read(NUMBERS, position, 1000)
            for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
                found = int(value or 0) if key == self._name.encode() else found
            if batch.next_offset == position:
                time.sleep(_PAUSE)
            position = batch.next_offset
        return found

    def append(self, records: Iterable[tuple[TopicPartition, Columns]], number: int) -> bool:
        """All of it or nothing; nothing if this number, or a higher one, was appended.

        1. A transaction begins: what others of this name had begun was ended before, and if one of them comes now,
           this transaction is ended.
        2. The number is looked at: what it says holds until the end of the transaction, or that fails.
        3. Records and number are written, and committed.
        """
        self._transactions.begin()
        if number <= self.number():
            return False
        for target, columns in records:
            self._transactions.send(target, columns)
        note = Columns([self._name.encode()], [b"%d" % number], [time.time_ns() // 1_000_000])
        self._transactions.send(NUMBERS, note)
        committed = self._transactions.commit({}, None)
        if committed.outcome is not Outcome.DONE:
            self._transactions.settle()
            if self.number() < number:
                raise LogError(f"the records could not be written to Kafka in one transaction: {committed.reason}")
        return True

    def close(self) -> None:
        """What was not committed is not there."""
        self._transactions.close()
