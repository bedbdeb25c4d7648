"""Dead letters as a worker writes them, written with the log's own API."""

from __future__ import annotations

import os

from streamtopo.dead_letters import headers as names
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, Headers, TopicPartition

APP = """
from streamtopo import StreamsBuilder
builder = StreamsBuilder("orders")
builder.stream("amounts", key=str, value=int).map_values(lambda value: 100 // value).to("out")
"""
LETTERS = "dlq.orders"


def failure(
    offset: int,
    *,
    exception: str = "ValueError",
    node: str = "to-cents",
    topic: str = "amounts",
    partition: int = 0,
    own: Headers = (),
    **others: str,
) -> Headers:
    """The headers of a record that failed; `own` are the record's. `others` are further ones, such as `CUT="3"`."""
    texts = {
        names.EXCEPTION: exception,
        names.MESSAGE: f"bad amount {offset}",
        names.STACKTRACE: f'Traceback:\n  File "orders.py", line 31, in to_cents\n{exception}: bad amount {offset}',
        names.TOPIC: topic,
        names.PARTITION: str(partition),
        names.OFFSET: str(offset),
        names.NODE: node,
        names.STAGE: "step",
        names.TASK: f"0_{partition}",
        names.APPLICATION: "orders",
        names.ATTEMPTS: "1",
        **{getattr(names, name): text for name, text in others.items()},
    }
    return (*own, *((name, text.encode()) for name, text in texts.items()))


def write_letters(log: Log, *rows: Headers, partition: int = 0, start: int = 0, size: int = 0) -> None:
    """Write a letter for each of these headers into a partition of the dead-letter topic, which has two.

    Its key is k0, k1, …, its value a number, as of an `int`, and its time a second later than that of the one before.
    `size` random bytes follow the number.
    """
    log.create(Topic(LETTERS, 2))
    numbers = range(start, start + len(rows))
    columns = Columns(
        [b"k%d" % number for number in numbers],
        [number.to_bytes(8, "big") + os.urandom(size) for number in numbers],
        [1_700_000_000_000 + 1000 * number for number in numbers],
        list(rows),
    )
    log.append(TopicPartition(LETTERS, partition), columns)
