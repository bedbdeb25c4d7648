"""A Faust app that counts by key in a table and forwards each count; `faust_brokers.py` runs it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import faust

RECORDS, KEYS, PARTITIONS = int(os.environ["BENCH_RECORDS"]), 1000, 4
NAME = os.environ["BENCH_NAME"]

app: Any = faust.App(
    NAME, broker=os.environ["BENCH_BROKER"], datadir=os.environ["BENCH_DATA"], topic_partitions=PARTITIONS
)
events = app.topic(f"{NAME}-events", key_type=str, value_type=int)
counted = app.topic(f"{NAME}-counted", key_type=str, value_type=int)
counts = app.Table("counts", default=int, partitions=PARTITIONS)


@app.agent(events)  # type: ignore[untyped-decorator]
async def count(stream: Any) -> None:
    done, began = 0, 0.0
    async for key, amount in stream.items():
        began = began or time.monotonic()
        counts[key] += amount
        await counted.send(key=key, value=counts[key])
        done += 1
        if done == RECORDS:
            await app.producer.flush()
            report("counted", began)
            os._exit(0)  # Faust offers no orderly way to end an app from inside


@app.command()  # type: ignore[untyped-decorator]
async def fill(self: Any) -> None:
    for topic in (events, counted):
        await topic.declare()
    began = time.monotonic()
    sent = [await events.send(key=f"key-{number % KEYS}", value=1) for number in range(RECORDS)]
    for one in sent:
        await one
    report("filled", began)


def report(what: str, began: float) -> None:
    rate = RECORDS / (time.monotonic() - began)
    rows = sorted(counts.items()) if what == "counted" else []
    with open(os.environ["BENCH_REPORT"], "a") as file:
        file.write(json.dumps({"what": what, "records/s": rate, "rows": rows}) + "\n")
