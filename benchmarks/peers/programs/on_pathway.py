"""The workloads that Pathway can run: on_pathway.py WORKLOAD BROKERS GROUP STATE-DIRECTORY MILLISECONDS [cutoff]

A batch of records is processed each MILLISECONDS. With a cutoff, windows forget their records after the grace.
"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Any

import pathway as pw  # type: ignore[import-not-found]

LEAST = 50_000
pack = Struct(">q").pack


class Event(pw.Schema):  # type: ignore[misc]
    user: int
    page: str
    ts: int
    amount: float


@pw.udf(deterministic=True)  # type: ignore[untyped-decorator]
def number(value: int) -> bytes:
    return pack(value)


@pw.udf(deterministic=True)  # type: ignore[untyped-decorator]
def encoded(word: str) -> bytes:
    return word.encode()


@pw.udf(deterministic=True)  # type: ignore[untyped-decorator]
def user_and_start(user: int, start: int) -> bytes:
    return str(user).encode() + pack(start)


@pw.udf(deterministic=True)  # type: ignore[untyped-decorator]
def words_of(line: str) -> list[str]:
    return line.lower().split()


class Kafka:
    def __init__(self, brokers: str, group: str, each_ms: int) -> None:
        self._writing = {"bootstrap.servers": brokers}
        self._reading = self._writing | {"group.id": group, "auto.offset.reset": "earliest"}
        self._each_ms = each_ms

    def events(self) -> Any:
        return self._read("events", format="json", schema=Event)

    def lines(self) -> Any:
        return self._read("sentences", format="plaintext")

    def _read(self, topic: str, **options: Any) -> Any:
        return pw.io.kafka.read(self._reading, topic, autocommit_duration_ms=self._each_ms, **options)

    def write_in_cents(self, events: Any, topic: str) -> None:
        """Keep the order of records, which those of a batch lose otherwise."""
        cents = pw.cast(int, (events.amount * 100).num.round(0))
        rows = events.select(events.user, events.ts, cents=cents, key=events.user.to_string())
        pw.io.kafka.write(rows, self._writing, topic, key=rows.key, sort_by=[rows.ts])

    def write_counts(self, counts: Any, key: Any, topic: str) -> None:
        """Write the new counts of each batch, but not that the old ones are gone."""
        new = counts.to_stream().filter(pw.this.is_upsert)
        rows = new.select(key=key, value=number(pw.this.count))
        pw.io.kafka.write(rows, self._writing, topic, format="raw", key=rows.key, value=rows.value)


def describe(kafka: Kafka, workload: str, *, cutoff: bool) -> None:
    if workload == "word-count":
        lines = kafka.lines()
        words = lines.select(word=words_of(lines.data)).flatten(pw.this.word)
        counts = words.groupby(words.word).reduce(words.word, count=pw.reducers.count())
        kafka.write_counts(counts, encoded(pw.this.word), "word-counts")
        return
    events = kafka.events()
    if workload == "map-filter":
        kafka.write_in_cents(events.filter(events.amount >= LEAST), "large")
    elif workload == "latency":
        kafka.write_in_cents(events, "mapped")
    elif workload == "keyed-count":
        counts = events.groupby(events.user).reduce(events.user, count=pw.reducers.count())
        kafka.write_counts(counts, encoded(pw.this.user.to_string()), "counted")
    else:
        size = 1000 if workload == "backlog" else 10_000
        behaviour = pw.temporal.common_behavior(cutoff=5000) if cutoff else None
        windows = events.windowby(
            events.ts, window=pw.temporal.tumbling(size), instance=events.user, behavior=behaviour
        )
        counts = windows.reduce(user=pw.this._pw_instance, start=pw.this._pw_window_start, count=pw.reducers.count())
        kafka.write_counts(counts, user_and_start(pw.this.user, pw.this.start), "counted")


def main(workload: str, brokers: str, group: str, state: str, each_ms: str, *options: str) -> None:
    describe(Kafka(brokers, group, int(each_ms)), workload, cutoff="cutoff" in options)
    kept = pw.persistence.Config(pw.persistence.Backend.filesystem(state))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
