"""The workloads: their input, and the output expected of every contender."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from benchmarks.data import LINE, START, Row, events, lines, repeating_users, unique_users
from benchmarks.workloads.map_filter import LEAST, in_cents
from benchmarks.workloads.stream_table_join import USERS
from benchmarks.workloads.tumbling_count import SIZE
from streamtopo.serdes import INT

Values = dict[bytes, Any]
"""The last value of each key: intermediate values depend on caches."""


@dataclass(frozen=True)
class Workload:
    name: str
    application: str
    """Its id, which is also the name of its group."""
    input: str
    output: str
    records: int
    rows: Callable[[int], Iterable[Row]]
    expected: Callable[[Sequence[Row]], Values]
    read: Callable[[bytes], Any] = INT.decode
    """Decode a value of the output, to compare values in different formats."""
    tables: dict[str, Callable[[], Iterable[Row]]] = field(default_factory=dict)
    """Input that is read before, by topic."""
    through: bool = False
    """Whether a topic of the application's own is between input and output."""
    backlog: bool = False
    """Whether all input is there before a contender starts; otherwise it is warmed up."""
    unit: str = "records"
    units: int = 1
    """The number of units per record."""


def events_of_some(records: int, per_ms: int = 1) -> Iterable[Row]:
    return events(repeating_users(records), per_ms=per_ms)


def events_of_each(records: int) -> Iterable[Row]:
    return events(unique_users(records))


def events_of_many(records: int) -> Iterable[Row]:
    return events(repeating_users(records, USERS))


def events_without_keys(records: int) -> Iterable[Row]:
    """Yield events in the order of time, 100 ms apart; their users are only in the values."""
    return ((None, value, time) for _, value, time in events(repeating_users(records, 50), apart_ms=100))


def names() -> Iterable[Row]:
    return ((str(user).encode(), name_of(user), START - 1) for user in range(10_000_000, 10_000_000 + USERS))


def name_of(user: int) -> bytes:
    return f"user {user}".encode()


# -- expected output


def in_cents_if_large(rows: Sequence[Row]) -> Values:
    decoded = ((key, orjson.loads(value)) for key, value, _ in rows)
    return {key: in_cents(event) for key, event in decoded if key and event["amount"] >= LEAST}


def in_cents_each(rows: Sequence[Row]) -> Values:
    return {key: in_cents(orjson.loads(value)) for key, value, _ in rows if key}


def counts(rows: Sequence[Row]) -> Values:
    return dict(Counter(key for key, _, _ in rows if key))


def counts_in_windows(rows: Sequence[Row]) -> Values:
    return dict(Counter(key + INT.encode(time // SIZE * SIZE) for key, _, time in rows if key))


def counts_by_user(rows: Sequence[Row]) -> Values:
    """Count in windows of a second."""
    return dict(Counter(user_of(value) + INT.encode(time // 1000 * 1000) for _, value, time in rows))


def user_of(value: bytes) -> bytes:
    return str(orjson.loads(value)["user"]).encode()


def counts_of_words(rows: Sequence[Row]) -> Values:
    return dict(Counter(word for _, line, _ in rows for word in line.lower().split()))


def with_names(rows: Sequence[Row]) -> Values:
    decoded = ((key, orjson.loads(value)) for key, value, _ in rows)
    return {key: {**event, "name": name_of(event["user"]).decode()} for key, event in decoded if key}


_counting = partial(Workload, application="keyed-count", input="events", output="counted", expected=counts)
_written = partial(Workload, input="events", read=orjson.loads)

WORKLOADS = {
    workload.name: workload
    for workload in (
        _written(
            name="map-filter",
            application="map-filter",
            output="large",
            records=1_000_000,
            rows=events_of_some,
            expected=in_cents_if_large,
        ),
        _counting(name="keyed-count", records=1_000_000, rows=events_of_some),
        _counting(name="every-update", records=500_000, rows=events_of_some),
        Workload(
            "tumbling-count",
            "tumbling-count",
            "events",
            "counted",
            500_000,
            partial(events_of_some, per_ms=10),
            counts_in_windows,
        ),
        Workload(
            "backlog",
            "backlog",
            "events",
            "counted",
            100_000,
            events_without_keys,
            counts_by_user,
            through=True,
            backlog=True,
        ),
        Workload(
            "word-count",
            "wordcount",
            "sentences",
            "word-counts",
            100_000,
            lines,
            counts_of_words,
            through=True,
            unit="words",
            units=LINE,
        ),
        _written(
            name="stream-table-join",
            application="stream-table-join",
            output="joined",
            records=500_000,
            rows=events_of_many,
            expected=with_names,
            tables={"names": names},
        ),
        _written(
            name="latency",
            application="latency",
            output="mapped",
            records=10_000,
            rows=events_of_some,
            expected=in_cents_each,
        ),
        _counting(name="restore", records=1_000_000, rows=events_of_each),
    )
}
