"""The results of a run, small enough to compare: the number of rows, and a digest of them."""

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
    """The last record of each key with its timestamp: intermediate records depend on commits."""

    def look(place: Place) -> Results:
        last = {(partition, key): (value, time) for partition, key, value, time in records_of(place.log, topic)}
        return _results(sorted(last.items()))

    return look


def every_record(topic: str) -> Look:
    """All records, in order within each partition."""
    return lambda place: _results(records_of(place.log, topic))


def all_records(topic: str) -> Look:
    """All records, in any order."""
    return lambda place: _results(sorted(records_of(place.log, topic)))


def live_values(topic: str) -> Look:
    """The last record of each key without deleted keys: whether deletions are written depends on commits."""

    def look(place: Place) -> Results:
        last = {(partition, key): (value, time) for partition, key, value, time in records_of(place.log, topic)}
        return _results(sorted((key, row) for key, row in last.items() if row[0] is not None))

    return look


def store_rows(place: Place) -> Results:
    """The rows of all stores, in any order of opening."""
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
