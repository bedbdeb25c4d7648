"""Seeded input: JSON events by user, and lines of words; timestamps ascend, and keys are partitioned as in Kafka."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

from streamtopo.logs import Log, Outcome, Topic
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition

PARTITIONS = 4
START = 1_700_000_000_000
LINE = 8
"""Words in a line."""
_VOCABULARY = 20_000
_AT_ONCE = 10_000

Row = tuple[bytes | None, bytes, int]
"""Key, value, timestamp."""


def create(log: Log, *topics: str) -> None:
    """Create topics without a retention: the records have old timestamps."""
    for topic in topics:
        log.create(Topic(topic, PARTITIONS, {"retention.ms": "-1"}))


def fill(log: Log, topic: str, rows: Iterable[Row]) -> None:
    """Append rows by key, and rows without a key to the partitions in turn."""
    rows = iter(rows)
    while several := list(islice(rows, _AT_ONCE * PARTITIONS)):
        for target, columns in by_partition(topic, several):
            log.append(target, columns)


def fill_at_once(log: Log, topic: str, rows: Iterable[Row]) -> None:
    """Append all rows in one transaction: they become visible together."""
    member = log.join("filling", [])
    for target, columns in by_partition(topic, rows):
        member.send(target, columns)
    assert member.commit({}).outcome is Outcome.DONE
    member.leave()


def by_partition(topic: str, rows: Iterable[Row]) -> Iterator[tuple[TopicPartition, Columns]]:
    parts: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for place, row in enumerate(rows):
        parts[partition_of(row[0], PARTITIONS, place)].append(row)
    for partition, part in enumerate(parts):
        if part:
            keys, values, times = map(list, zip(*part, strict=True))
            yield TopicPartition(topic, partition), Columns(keys, values, times)


def events(users: Sequence[int], *, per_ms: int = 1, apart_ms: int = 1) -> Iterator[Row]:
    """Yield one event of each of these users, in this order: {"user":…,"page":"/p/…","ts":…,"amount":…}.

    `per_ms` events have the same time; the next ones are `apart_ms` later.
    """
    chance = random.Random("events")
    for place, user in enumerate(users):
        page, cents = chance.randrange(1_000_000), chance.randrange(10_000_000)
        time = START + place // per_ms * apart_ms
        text = f'{{"user":{user},"page":"/p/{page}","ts":{time},"amount":{cents / 100}}}'
        yield str(user).encode(), text.encode(), time


def repeating_users(records: int, users: int = 10_000) -> list[int]:
    return random.Random("users").choices(range(10_000_000, 10_000_000 + users), k=records)


def unique_users(records: int) -> list[int]:
    return random.Random("unique").sample(range(10_000_000, 10_000_000 + records), records)


def lines(count: int) -> Iterator[Row]:
    """Yield lines of words, of which some are frequent and most are rare, as in a language."""
    chance = random.Random("lines")
    vocabulary = [
        "".join(chance.choices("abcdefghijklmnoprstuvw", k=2 + rank.bit_length() // 2)) for rank in range(_VOCABULARY)
    ]
    weights = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))
    for place in range(count):
        words = chance.choices(vocabulary, cum_weights=weights, k=LINE)
        yield None, " ".join(words).capitalize().encode(), START + place
