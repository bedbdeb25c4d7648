"""How fast are JSON events filtered and mapped to other JSON events?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from benchmarks.bare.loop import Output, Send, run_bare
from benchmarks.data import create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import every_record
from benchmarks.workload import Workload
from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Log
from streamtopo.records import Batch, TopicPartition

LEAST = 50_000
"""About half of the events have at least this amount."""


def topology() -> Topology:
    builder = StreamsBuilder("map-filter")
    stream = builder.stream("events", key=str, value=dict)
    stream.filter(lambda _, event: event["amount"] >= LEAST).map_values(in_cents).to("large")
    return builder.build()


def in_cents(event: dict[str, Any]) -> dict[str, Any]:
    return {"user": event["user"], "ts": event["ts"], "cents": round(event["amount"] * 100)}


class MapFilter:
    def __init__(self, log: Log) -> None:
        self._output = Output(log, "large")

    def take(self, batch: Batch, send: Send) -> None:
        rows = [
            (key, event, time)
            for key, event, time in zip(
                batch.columns.keys,
                map(orjson.loads, batch.columns.values),  # type: ignore[arg-type]
                batch.columns.timestamps,
                strict=True,
            )
            if event["amount"] >= LEAST
        ]
        # The slice copies: each value returned by orjson would keep a buffer of 4 kB.
        newline, dumps = orjson.OPT_APPEND_NEWLINE, orjson.dumps
        values = [
            dumps({"user": event["user"], "ts": event["ts"], "cents": round(event["amount"] * 100)}, None, newline)[:-1]
            for _, event, _ in rows
        ]
        self._output.send(send, [key for key, _, _ in rows], values, [time for _, _, time in rows])  # type: ignore[misc]

    def flush(self, send: Send) -> None:
        pass

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        pass


def prepare(log: Log, records: int) -> None:
    create(log, "events", "large")
    fill(log, "events", events(repeating_users(records)))


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], MapFilter(place.log))


workload = Workload(
    "map-filter",
    "How fast are JSON events filtered (half of them pass) and mapped to other JSON events?",
    1_000_000,
    prepare,
    processing(topology),
    bare,
    every_record("large"),
)
