"""Records that are written at once, without a group."""

from __future__ import annotations

from functools import partial
from itertools import chain, repeat
from typing import Any

from confluent_kafka import Producer

from streamtopo.errors import LogError
from streamtopo.logs.kafka.failing import NO_SUCH, Complaints, absent, explained, reason_of
from streamtopo.logs.kafka.settings import PATIENCE, Settings
from streamtopo.records import Columns, TopicPartition

_FULL = 0.1
_FIRST = 1
"""The earliest time that the client sends: to it, 0 is none, and becomes the time of now."""


class Writer:
    """Used by one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        with explained("be written to"):
            self._producer = Producer(settings.producer() | {"error_cb": Complaints()})

    def append(self, target: TopicPartition, columns: Columns) -> int:
        """Returns the offset behind the last one."""
        delivered: list[tuple[Any, int]] = []
        with explained(f"write to {target}"):
            told = partial(_tell, delivered)
            produce(self._producer, target, columns, told, others=told)
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


def _tell(delivered: list[tuple[Any, int]], error: Any, message: Any) -> None:
    delivered.append((error, message.offset()))


def produce(producer: Any, target: TopicPartition, columns: Columns, last: Any, *, others: Any = None) -> None:
    """Hand the records to the producer, which sends them beside us and calls `last` for the last, `others` before."""
    told = chain(repeat(others, len(columns.keys) - 1), [last])
    headers = [map(list, columns.headers)] if columns.headers else []
    keys, values, times = columns.keys, columns.values, columns.timestamps
    if not all(times):
        times = [time or _FIRST for time in times]
    put = producer.produce
    for row in zip(repeat(target.topic), values, keys, repeat(target.partition), told, repeat(None), times, *headers):
        while True:
            try:  # by position: names would take as long as the call
                put(*row)
                break
            except BufferError:
                producer.poll(_FULL)
