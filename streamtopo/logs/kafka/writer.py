"""Records that are written at once, without a group."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from streamtopo.errors import LogError
from streamtopo.logs.kafka.failing import NO_SUCH, Complaints, absent, explained, reason_of
from streamtopo.logs.kafka.settings import PATIENCE, Settings
from streamtopo.records import Columns, TopicPartition

_FULL = 0.1


class Writer:
    """Used by one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._producer = Producer(settings.producer() | {"error_cb": Complaints()})

    def append(self, target: TopicPartition, columns: Columns) -> int:
        """Returns the offset behind the last one."""
        delivered: list[tuple[Any, int]] = []
        with explained(f"write to {target}"):
            produce(self._producer, target, columns, lambda error, message: delivered.append((error, message.offset())))
            left = self._producer.flush(PATIENCE)
        if left:
            self._producer.purge()
            raise LogError(f"{left} records for {target} could not be written within {PATIENCE:.0f} s")
        for error, _ in delivered:
            if error is not None:
                if error.code() in NO_SUCH:
                    raise absent(target)
                raise LogError(f"records could not be written to {target}: {reason_of(error)}")
        return max(offset for _, offset in delivered) + 1


def produce(producer: Any, target: TopicPartition, columns: Columns, done: Any, *, each: bool = True) -> None:
    """Hand the records to the producer, which sends them beside us; `done` is called for each, or for the last."""
    topic, partition = target
    headers = columns.headers or [()] * len(columns.keys)
    last = len(columns.keys) - 1
    for place, (key, value, time, head) in enumerate(
        zip(columns.keys, columns.values, columns.timestamps, headers, strict=True)
    ):
        told = done if each or place == last else None
        while True:
            try:
                if head:
                    producer.produce(topic, value, key, partition, told, timestamp=time, headers=list(head))
                else:
                    producer.produce(topic, value, key, partition, told, timestamp=time)
                break
            except BufferError:
                producer.poll(_FULL)
