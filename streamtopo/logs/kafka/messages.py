"""Messages to columns: runs of the same partition, with no look-up per record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError

from streamtopo.records import Batch, Columns, Headers, TopicPartition

MOST = 100_000
"""Messages that are asked for at once."""


def consumed(consumer: Any, limit: int, timeout: float) -> list[Any]:
    """What is there; else what comes within the timeout. (Waiting for all of them takes the whole timeout.)"""
    messages: list[Any] = consumer.consume(min(limit, MOST), 0)
    if messages or not timeout:
        return messages
    first = consumer.poll(timeout)
    return [] if first is None else [first, *consumer.consume(min(limit, MOST) - 1, 0)]


def runs(messages: Sequence[Any]) -> Iterator[tuple[TopicPartition, list[Any]]]:
    """Messages of the same partition that follow each other; each error is a run of its own."""
    for (topic, partition, _), run in groupby(messages, key=_place):
        yield TopicPartition(topic, partition), list(run)


def _place(message: Any) -> tuple[str, int, int]:
    return message.topic(), message.partition(), 0 if message.error() is None else id(message)


def at_end(message: Any) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def batch_of(source: TopicPartition, messages: Sequence[Any], next_offset: int | None = None) -> Batch:
    offsets = [message.offset() for message in messages]
    columns = Columns(
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.timestamp()[1] for message in messages],
        _headers([message.headers() for message in messages]),
    )
    return Batch(source, columns, offsets, offsets[-1] + 1 if next_offset is None else next_offset)


def _headers(column: list[list[tuple[str, bytes | None]] | None]) -> list[Headers] | None:
    """Kafka knows headers without a value; ours are empty then."""
    if not any(column):
        return None
    return [tuple([(name, value or b"") for name, value in headers or ()]) for headers in column]
