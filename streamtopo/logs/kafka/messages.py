"""Turns messages into columns: consecutive messages of a partition are handled together, not one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError, Message

from streamtopo.records import Batch, Columns, Headers, TopicPartition

_MESSAGE: Any = Message
"""Its methods are passed to `map`. They are annotated to return None too, as they do for some errors."""
MOST = 10_000
"""Messages of one request. With four times as many, none is still in the processor's caches when it is used."""


def consumed(consumer: Any, limit: int, timeout: float) -> list[Any]:
    """The messages that are there, or else those that come within the timeout, without waiting for `limit`."""
    messages: list[Any] = consumer.consume(min(limit, MOST), 0)
    if messages or not timeout:
        return messages
    first = consumer.poll(timeout)
    return [] if first is None else [first, *consumer.consume(min(limit, MOST) - 1, 0)]


def runs(messages: list[Any]) -> Iterator[tuple[TopicPartition, list[Any]]]:
    """Consecutive messages of the same partition; each error is returned by itself."""
    for partition, of_several in groupby(messages, _MESSAGE.partition):
        for topic, of_one in groupby(of_several, _MESSAGE.topic):
            run = list(of_one)
            parts = [run] if not any(map(_MESSAGE.error, run)) else [list(part) for _, part in groupby(run, _fault)]
            for part in parts:
                yield TopicPartition(topic, partition), part


def _fault(message: Any) -> int:
    return 0 if message.error() is None else id(message)


def at_end(message: Any) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def batch_of(source: TopicPartition, messages: Sequence[Any], next_offset: int | None = None) -> Batch:
    offsets: Sequence[int] = range(messages[0].offset(), messages[-1].offset() + 1) if messages else range(0)
    if len(offsets) != len(messages):  # the offsets have gaps
        offsets = list(map(_MESSAGE.offset, messages))
    columns = Columns(
        list(map(_MESSAGE.key, messages)),
        list(map(_MESSAGE.value, messages)),
        [time for _, time in map(_MESSAGE.timestamp, messages)],
        _headers(messages),
    )
    return Batch(source, columns, offsets, offsets[-1] + 1 if next_offset is None else next_offset)


def _headers(messages: Sequence[Any]) -> list[Headers] | None:
    if not any(map(_MESSAGE.headers, messages)):
        return None
    return [tuple(message.headers() or ()) for message in messages]
