"""The workloads that Bytewax can run: on_bytewax.py WORKLOAD BROKERS GROUP STATE-DIRECTORY"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Any

import orjson
from bytewax import operators as op  # type: ignore[import-not-found]
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource  # type: ignore[import-not-found]
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.run import cli_main  # type: ignore[import-not-found]

LEAST = 50_000
pack = Struct(">q").pack


def mapped(message: Any) -> Any:
    event = orjson.loads(message.value)
    if event["amount"] < LEAST:
        return None
    cents = {"user": event["user"], "ts": event["ts"], "cents": round(event["amount"] * 100)}
    return KafkaSinkMessage(message.key, orjson.dumps(cents))


def count(state: int | None, message: Any) -> tuple[int, int]:
    orjson.loads(message.value)
    counted = (state or 0) + 1
    return counted, counted


def main(workload: str, brokers: str, group: str, state: str) -> None:
    flow = Dataflow(group)
    events = op.input("in", flow, KafkaSource([brokers], ["events"], tail=True))
    if workload == "map-filter":
        out, target = op.filter_map("map", events, mapped), "large"
    else:
        keyed = op.map("key", events, lambda message: (message.key.decode(), message))
        counted = op.stateful_map("count", keyed, count)
        out, target = op.map("out", counted, lambda row: KafkaSinkMessage(row[0].encode(), pack(row[1]))), "counted"
    kop.output("out-kafka", out, brokers=[brokers], topic=target)
    cli_main(flow)


if __name__ == "__main__":
    main(*sys.argv[1:])
