"""Writes records immediately, without a group."""

from __future__ import annotations

from functools import partial
from itertools import chain, repeat
from typing import Any

from confluent_kafka import Producer

from streamtopo.errors import LogError
from streamtopo.logs.kafka.errors import NO_SUCH, ClientErrors, absent, explained, reason_of
from streamtopo.logs.kafka.settings import PATIENCE, ClientSettings
from streamtopo.records import Columns, TopicPartition

_FULL = 0.1
_FIRST = 1
"""The earliest timestamp that can be sent: the client replaces 0 by the current time."""


class Writer:
    """Used by one thread at a time."""

    def __init__(self, settings: ClientSettings) -> None:
        with explained("be written to"):
            self._producer = Producer(settings.producer() | {"error_cb": ClientErrors()})

    def append(self, target: TopicPartition, columns: Columns) -> int:
        """Return the next offset."""
        delivered: list[tuple[Any, int]] = []
        with explained(f"write to {target}"):
            report = partial(_report, delivered)
            produce(self._producer, target, columns, report, others=report)
            left = self._producer.flush(PATIENCE)
        if left:
            self._producer.purge()
            raise LogError(
                f"{left} records for {target} could not be written within {PATIENCE:.0f} s; check that the brokers "
                "are up"
            )
        for error, _ in delivered:
            if error is not None:
                if error.code() in NO_SUCH:
                    raise absent(target)
                raise LogError(f"records could not be written to {target}: {reason_of(error)}")
        return max(offset for _, offset in delivered) + 1


def _report(delivered: list[tuple[Any, int]], error: Any, message: Any) -> None:
    delivered.append((error, message.offset()))


def produce(producer: Any, target: TopicPartition, columns: Columns, last: Any, *, others: Any = None) -> None:
    """Pass the records to the producer, which sends them in the background.

    It calls `last` when the last one is delivered, and `others` for each of the others.
    """
    callbacks = chain(repeat(others, len(columns.keys) - 1), [last])
    headers = [map(list, columns.headers)] if columns.headers else []
    keys, values, times = columns.keys, columns.values, columns.timestamps
    if not all(times):
        times = [time or _FIRST for time in times]
    put = producer.produce
    topic, partition = repeat(target.topic), repeat(target.partition)
    for row in zip(topic, values, keys, partition, callbacks, repeat(None), times, *headers):
        while True:
            try:  # positional: keyword arguments would take as long as the call itself
                put(*row)
                break
            except BufferError:
                producer.poll(_FULL)
