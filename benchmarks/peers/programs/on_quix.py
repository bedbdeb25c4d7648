"""The workloads on Quix Streams: on_quix.py WORKLOAD BROKERS GROUP STATE-DIRECTORY exactly-once|at-least-once"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]
from quixstreams.models.serializers import Serializer  # type: ignore[import-not-found]

LEAST = 50_000
pack = Struct(">q").pack


class Second(Serializer):  # type: ignore[misc]
    """Serialize the value of a pair of key and value."""

    def __call__(self, value: Any, ctx: Any) -> bytes:
        return bytes(value[1])


def in_cents(event: dict[str, Any]) -> dict[str, Any]:
    return {"user": event["user"], "ts": event["ts"], "cents": round(event["amount"] * 100)}


def count(value: Any, state: Any) -> bytes:
    counted = state.get("n", 0) + 1
    state.set("n", counted)
    return pack(counted)


def windowed(value: dict[str, int], key: bytes, timestamp: int, headers: Any) -> tuple[bytes, bytes]:
    return key + pack(value["start"]), pack(value["value"])


def user_of(event: dict[str, Any]) -> str:
    return str(event["user"])


class Late:
    """Count late records, instead of a line in the log for each."""

    def __init__(self) -> None:
        self.records = 0

    def __call__(self, *_: Any) -> bool:
        self.records += 1
        return False


def count_by_user(app: Any, late: Late) -> None:
    """Close windows by the time of their key, the default. By that of the partition, closed ones can start again."""
    users = app.dataframe(app.topic("events")).group_by(user_of, "user", key_serializer="str", key_deserializer="bytes")
    counted = users.tumbling_window(1000, 5000, on_late=late).count().current()
    target = app.topic("counted", key_serializer="bytes", value_serializer=Second())
    counted.apply(windowed, metadata=True).to_topic(target, key=lambda pair: pair[0])


def describe(app: Any, workload: str, late: Late) -> None:
    if workload == "backlog":
        count_by_user(app, late)
        return
    if workload == "word-count":
        sdf = app.dataframe(app.topic("sentences", value_deserializer="str"))
        sdf = sdf.apply(str.split, expand=True).apply(str.lower)
        texts = dict.fromkeys(("value_deserializer", "key_deserializer", "value_serializer", "key_serializer"), "str")
        sdf = sdf.group_by(lambda word: word, name="words", **texts)
        sdf.apply(count, stateful=True).to_topic(
            app.topic("word-counts", value_serializer="bytes", key_serializer="str")
        )
        return
    sdf = app.dataframe(app.topic("events"))
    if workload == "map-filter":
        sdf.filter(lambda event: event["amount"] >= LEAST).apply(in_cents).to_topic(app.topic("large"))
    elif workload == "latency":
        sdf.apply(in_cents).to_topic(app.topic("mapped"))
    elif workload == "tumbling-count":
        counted = sdf.tumbling_window(10_000).count().current().apply(windowed, metadata=True)
        counted.to_topic(app.topic("counted", value_serializer=Second()), key=lambda pair: pair[0])
    elif workload == "stream-table-join":
        names = app.dataframe(app.topic("names", value_deserializer="str"))
        sdf.join_asof(names, on_merge=lambda event, name: {**event, "name": name}).to_topic(app.topic("joined"))
    else:
        sdf.apply(count, stateful=True).to_topic(app.topic("counted", value_serializer="bytes"))


def main(workload: str, brokers: str, group: str, state: str, guarantee: str) -> None:
    app = Application(
        brokers,
        consumer_group=group,
        state_dir=state,
        processing_guarantee=guarantee,
        auto_offset_reset="earliest",
        commit_interval=0.1,
        consumer_poll_timeout=0.1,  # otherwise the last commit waits for a second
        loglevel="WARNING",
    )
    late = Late()
    describe(app, workload, late)
    app.run()
    print(f"late: {late.records}")


if __name__ == "__main__":
    main(*sys.argv[1:])
