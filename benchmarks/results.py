"""What a run left behind, small enough to compare: how many rows, and a digest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from benchmarks.places import Place
from streamtopo.logs import Log
from streamtopo.records import TopicPartition

_AT_ONCE = 100_000


class Results(NamedTuple):
    rows: int
    digest: str


Look = Callable[[Place], Results]


def last_values(topic: str) -> Look:
    """The last record of each key, its timestamp included: all that is certain where commits decide what is seen."""

    def look(place: Place) -> Results:
        last = {(partition, key): (value, time) for partition, key, value, time in records_of(place.log, topic)}
        return _results(sorted(last.items()))

    return look


def every_record(topic: str) -> Look:
    """All records, in order within each partition."""
    return lambda place: _results(records_of(place.log, topic))


def all_records(topic: str) -> Look:
    """All records, in whatever order."""
    return lambda place: _results(sorted(records_of(place.log, topic)))


def live_values(topic: str) -> Look:
    """The last record of each key, but for the keys that are deleted: of which there is a trace, commits decide."""

    def look(place: Place) -> Results:
        last = {(partition, key): (value, time) for partition, key, value, time in records_of(place.log, topic)}
        return _results(sorted((key, row) for key, row in last.items() if row[0] is not None))

    return look


def store_rows(place: Place) -> Results:
    """The rows of all stores, whichever was opened first."""
    return _results(sorted(row for store in place.stores for row in store.scan(b"", b"\xff")))


def records_of(log: Log, topic: str) -> Iterator[tuple[int, bytes | None, bytes | None, int]]:
    for partition in range(log.topics()[topic].partitions):
        part = TopicPartition(topic, partition)
        offset = log.start(part)
        while offset < log.end(part):
            batch = log.read(part, offset, _AT_ONCE)
            keys, values, times, _ = batch.columns
            for key, value, time in zip(keys, values, times, strict=True):
                yield partition, key, value, time
            offset = batch.next_offset


def _results(rows: Iterable[object]) -> Results:
    count, digest = 0, sha256()
    for row in rows:
        count += 1
        digest.update(repr(row).encode())
    return Results(count, digest.hexdigest()[:16])
