"""The workloads on Faust: on_faust.py WORKLOAD BROKERS GROUP STATE-DIRECTORY"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Any

import faust

LEAST, PARTITIONS = 50_000, 4
pack = Struct(">q").pack


def in_cents(event: dict[str, Any]) -> dict[str, Any]:
    return {"user": event["user"], "ts": event["ts"], "cents": round(event["amount"] * 100)}


def describe(app: Any, workload: str) -> None:
    def topic(name: str, **types: Any) -> Any:
        return app.topic(name, key_type=bytes, key_serializer="raw", partitions=PARTITIONS, **types)

    jsons: dict[str, Any] = {"value_serializer": "json"}
    raws: dict[str, Any] = {"value_type": bytes, "value_serializer": "raw"}
    if workload == "word-count":
        count_words(app, topic("sentences", **raws), topic("word-counts", **raws))
    elif workload == "map-filter":
        map_events(app, topic("events", **jsons), topic("large", **jsons), LEAST)
    elif workload == "latency":
        map_events(app, topic("events", **jsons), topic("mapped", **jsons), 0)
    elif workload == "stream-table-join":
        join(app, topic("events", **jsons), topic("names", **raws), topic("joined", **jsons))
    elif workload == "backlog":
        count_by_user(app, topic("events", **jsons), topic("counted", **raws))
    elif workload == "tumbling-count":
        count_in_windows(app, topic("events", **jsons), topic("counted", **raws))
    else:
        count(app, topic("events", **jsons), topic("counted", **raws))


def table(app: Any, name: str, **options: Any) -> Any:
    schema: Any = faust.Schema(key_type=bytes, key_serializer="raw", value_serializer="json")
    return app.Table(name, schema=schema, partitions=PARTITIONS, **options)


def map_events(app: Any, source: Any, target: Any, least: float) -> None:
    @app.agent(source)  # type: ignore[untyped-decorator]
    async def mapped(stream: Any) -> None:
        async for key, event in stream.items():
            if event["amount"] >= least:
                await target.send(key=key, value=in_cents(event))


def count(app: Any, source: Any, target: Any) -> None:
    counts = table(app, "counts", default=int)

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def counted(stream: Any) -> None:
        async for key, _ in stream.items():  # noqa: PERF102
            counts[key] += 1
            await target.send(key=key, value=pack(counts[key]))


def count_in_windows(app: Any, source: Any, target: Any) -> None:
    size = 10
    counts = app.Table("counts", default=int, partitions=PARTITIONS)
    windows = counts.tumbling(size, expires=3600).relative_to_stream()

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def counted(stream: Any) -> None:
        async for event in stream.events():
            key = event.key
            text = key.decode()
            windows[text] += 1
            start = int(event.message.timestamp // size * size * 1000)
            await target.send(key=key + pack(start), value=pack(windows[text].current(event)))


def count_by_user(app: Any, source: Any, target: Any) -> None:
    """Take the time from the event: group_by gives its records the time of writing.

    No record is too late for a window; every 30 s, windows that have expired by the wall clock are deleted.
    """
    counts = app.Table("counts", default=int, partitions=PARTITIONS)
    windows = counts.tumbling(1, expires=6).relative_to(lambda event: event.value["ts"] / 1000)

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def counted(stream: Any) -> None:
        async for event in stream.group_by(lambda event: str(event["user"]), name="user").events():
            text = event.key.decode()
            windows[text] += 1
            start = event.value["ts"] // 1000 * 1000
            await target.send(key=event.key + pack(start), value=pack(windows[text].value(event)))


def count_words(app: Any, source: Any, target: Any) -> None:
    counts = app.Table("counts", default=int, partitions=PARTITIONS)
    words = app.topic("wordcount-words", key_type=str, value_type=str, partitions=PARTITIONS, internal=True)

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def split(stream: Any) -> None:
        async for line in stream:
            for word in line.decode().lower().split():
                await words.send(key=word, value=word)

    @app.agent(words)  # type: ignore[untyped-decorator]
    async def counted(stream: Any) -> None:
        async for word in stream:
            counts[word] += 1
            await target.send(key=word.encode(), value=pack(counts[word]))


def join(app: Any, source: Any, names: Any, target: Any) -> None:
    known = table(app, "known")

    @app.agent(names)  # type: ignore[untyped-decorator]
    async def fill(stream: Any) -> None:
        async for key, name in stream.items():
            known[key] = name.decode()

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def joined(stream: Any) -> None:
        async for key, event in stream.items():
            await target.send(key=key, value={**event, "name": known[key]})


def main(workload: str, brokers: str, group: str, state: str) -> None:
    app = faust.App(
        group,
        broker=f"kafka://{brokers}",
        datadir=state,
        store="rocksdb://",
        topic_partitions=PARTITIONS,
        broker_commit_interval=0.1,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
    )
    describe(app, workload)
    app.finalize()
    faust.Worker(app, loglevel="error").execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
