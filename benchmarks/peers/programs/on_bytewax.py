"""The workloads that Bytewax can run: on_bytewax.py WORKLOAD BROKERS GROUP STATE-DIRECTORY SECONDS

Its state and positions are kept in recovery files, each SECONDS.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import Struct
from typing import Any

import orjson
from bytewax import operators as op  # type: ignore[import-not-found]
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource  # type: ignore[import-not-found]
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.operators import windowing as win  # type: ignore[import-not-found]
from bytewax.outputs import DynamicSink, StatelessSinkPartition  # type: ignore[import-not-found]
from bytewax.recovery import RecoveryConfig, init_db_dir  # type: ignore[import-not-found]
from bytewax.run import cli_main  # type: ignore[import-not-found]

LEAST = 50_000
SECOND, GRACE = timedelta(seconds=1), timedelta(seconds=5)
EPOCH = datetime.fromtimestamp(0, UTC)
pack = Struct(">q").pack


class Late(DynamicSink, StatelessSinkPartition):  # type: ignore[misc]
    """Print how many records were late so far."""

    records = 0

    def build(self, *_: Any) -> Late:
        return self

    def write_batch(self, items: list[Any]) -> None:
        self.records += len(items)
        print("late:", self.records, flush=True)


def mapped(message: Any, least: int) -> Any:
    event = orjson.loads(message.value)
    if event["amount"] < least:
        return None
    cents = {"user": event["user"], "ts": event["ts"], "cents": round(event["amount"] * 100)}
    return KafkaSinkMessage(message.key, orjson.dumps(cents))


def keyed(message: Any) -> tuple[str, Any]:
    return message.key.decode(), orjson.loads(message.value)


def count(state: int | None, value: Any) -> tuple[int, int]:
    counted = (state or 0) + 1
    return counted, counted


def row(pair: tuple[str, int]) -> Any:
    return KafkaSinkMessage(pair[0].encode(), pack(pair[1]))


def row_of_window(pair: tuple[str, tuple[int, int]]) -> Any:
    user, (second, counted) = pair
    return KafkaSinkMessage(user.encode() + pack(second * 1000), pack(counted))


def count_by_user(messages: Any) -> Any:
    """A window gives its count when it is closed, by the time of its key, which goes on with the wall clock."""
    events = op.map("decode", messages, lambda message: orjson.loads(message.value))
    clock = win.EventClock(lambda event: EPOCH + timedelta(milliseconds=event["ts"]), GRACE)
    seconds = win.TumblingWindower(align_to=EPOCH, length=SECOND)
    counted = win.count_window("count", events, clock, seconds, key=lambda event: str(event["user"]))
    op.output("late", counted.late, Late())
    return op.map("row", counted.down, row_of_window)


def describe(workload: str, flow: Any, brokers: str) -> None:
    source = "sentences" if workload == "word-count" else "events"
    messages = op.input("in", flow, KafkaSource([brokers], [source], tail=True))
    if workload in ("map-filter", "latency"):
        least, target = (LEAST, "large") if workload == "map-filter" else (0, "mapped")
        out = op.filter_map("map", messages, lambda message: mapped(message, least))
    elif workload == "backlog":
        target, out = "counted", count_by_user(messages)
    elif workload == "word-count":
        words = op.flat_map("split", messages, lambda message: message.value.decode().lower().split())
        target, pairs = "word-counts", op.key_on("by-word", words, lambda word: word)
        out = op.map("row", op.stateful_map("count", pairs, count), row)
    else:
        target, pairs = "counted", op.map("key", messages, keyed)
        out = op.map("row", op.stateful_map("count", pairs, count), row)
    kop.output("out", out, brokers=[brokers], topic=target)


def main(workload: str, brokers: str, group: str, state: str, seconds: str) -> None:
    flow = Dataflow(group)
    describe(workload, flow, brokers)
    Path(state).mkdir()
    init_db_dir(Path(state), 1)
    kept = RecoveryConfig(state, timedelta(0))
    cli_main(flow, epoch_interval=timedelta(seconds=float(seconds)), recovery_config=kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
