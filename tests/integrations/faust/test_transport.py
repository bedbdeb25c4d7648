"""The transport, call by call: what Faust asks of it, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import faust
import pytest
from faust.exceptions import ImproperlyConfigured, ProducerSendError
from faust.types import TP

from streamtopo.errors import LogError
from streamtopo.integrations.faust.reader import Reader
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, Headers, Position, TopicPartition
from tests.integrations.faust.workers import url_of

PART = TopicPartition("numbers", 0)


def app_on(folder: Path, **settings: Any) -> Any:
    return faust.App("app", broker=url_of(folder), web_enabled=False, datadir=str(folder / "data"), **settings)


def with_producer(app: Any, use: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        await app.producer.start()
        try:
            return await use(app.producer)
        finally:
            await app.producer.stop()

    return asyncio.run(run())


def numbers(log: EmbeddedLog, *values: int, config: dict[str, str] | None = None) -> None:
    if "numbers" not in log.topics():
        log.create(Topic("numbers", 1, config or {}))
    encoded: list[bytes | None] = [b"%d" % value for value in values]
    log.append(PART, Columns(encoded, encoded, list(values)))


# -- writing


def test_records_are_stored_where_the_metadata_says(tmp_path: Path, log: EmbeddedLog) -> None:
    async def use(producer: Any) -> list[Any]:
        await producer.create_topic("t", 2, 1, config={"retention.bytes": 5}, compacting=True, retention=2.0)
        sent = [
            await producer.send("t", b"k", b"v", 1, 1.5, {"a": b"b"}),
            await producer.send("t", b"k", None, 1, 2.0, [("a", b"b"), ("a", b"c")]),
            await producer.send("t", None, b"v", 0, 3.0, None),
        ]
        return [await one for one in sent]

    metadata = with_producer(app_on(tmp_path), use)
    assert [tuple(one) for one in metadata] == [
        ("t", 1, TP("t", 1), 0, 1500, 0),
        ("t", 1, TP("t", 1), 1, 2000, 0),
        ("t", 0, TP("t", 0), 0, 3000, 0),
    ]
    config = {"cleanup.policy": "compact", "retention.ms": "2000", "retention.bytes": "5"}
    assert log.topics()["t"][:3] == ("t", 2, config)
    batch = log.read(TopicPartition("t", 1), 0, 10)
    headers: list[Headers] = [(("a", b"b"),), (("a", b"b"), ("a", b"c"))]
    assert batch.columns == Columns([b"k", b"k"], [b"v", None], [1500, 2000], headers)
    assert log.read(TopicPartition("t", 0), 0, 10).columns == Columns([None], [b"v"], [3000])


def test_keys_go_where_kafka_would_put_them_and_the_rest_everywhere(tmp_path: Path, log: EmbeddedLog) -> None:
    async def use(producer: Any) -> None:
        for _ in range(6):
            await producer.send("t", None, b"v", None, None, None)
        await producer.send_and_wait("t", b"kafka", b"v", None, None, None)

    with_producer(app_on(tmp_path, topic_partitions=3), use)
    keys = [log.read(TopicPartition("t", number), 0, 10).columns.keys for number in range(3)]
    expected: list[list[bytes | None]] = [[None, None], [None, None], [None, None]]
    expected[1348980580 % 3].append(b"kafka")
    assert keys == expected


@pytest.mark.parametrize(
    ("key", "value", "partition", "headers", "words"),
    [
        (b"k", "text", 0, None, "not bytes"),
        (3, b"v", 0, None, "not bytes"),
        (b"k", b"v", 0, {"a": 1}, "headers"),
        (b"k", b"v", 8, None, "there is no partition 8"),
        (b"k", b"v", -1, None, "there is no partition -1"),
    ],
)
def test_what_the_log_cannot_hold_is_refused_alone(
    tmp_path: Path, log: EmbeddedLog, key: Any, value: Any, partition: int, headers: Any, words: str
) -> None:
    async def use(producer: Any) -> None:
        good = await producer.send("t", b"k", b"good", 0, None, None)
        with pytest.raises(ProducerSendError, match="timestamp"):
            await producer.send("t", b"k", b"v", 0, 1e30, None)
        with pytest.raises(ProducerSendError, match=words):
            await producer.send("t", key, value, partition, None, headers)
        assert (await good).offset == 0
        assert (await producer.send_and_wait("t", b"k", b"good", 0, None, None)).offset == 1

    with_producer(app_on(tmp_path), use)


def test_a_topic_is_not_made_where_the_app_must_not(tmp_path: Path, log: EmbeddedLog) -> None:
    async def use(producer: Any) -> None:
        with pytest.raises(ProducerSendError, match='topic "t" does not exist, and topic_allow_declare is off'):
            await producer.send("t", b"k", b"v", None, None, None)

    with_producer(app_on(tmp_path, topic_allow_declare=False), use)
    assert log.topics() == {}


def test_a_failure_reaches_all_who_wait_and_ends_the_producer(tmp_path: Path) -> None:
    async def use(producer: Any) -> None:
        await producer.send_and_wait("t", b"k", b"v", 0, None, None)
        producer._log.delete("t")
        lost = await producer.send("t", b"k", b"v", 0, None, None)
        with pytest.raises(ProducerSendError, match="does not exist"):
            await lost
        await producer.flush()
        with pytest.raises(ProducerSendError, match="nothing can be written after a failure"):
            await producer.send("t", b"k", b"v", 0, None, None)
        assert isinstance(producer.crash_reason, LogError)

    with_producer(app_on(tmp_path), use)


# -- an app


def test_a_log_that_cannot_be_opened_is_the_reason_of_the_crash(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    app = faust.App("app", broker=f"streamtopo://{tmp_path / 'file'}", web_enabled=False)

    async def run() -> None:
        with pytest.raises(LogError, match="file"):
            await app.start()
        await app.stop()

    asyncio.run(run())


def test_events_carry_time_and_headers(tmp_path: Path, log: EmbeddedLog) -> None:
    app = app_on(tmp_path)
    topic = app.topic("events", key_type=str, value_type=int)
    seen: asyncio.Queue[Any] = asyncio.Queue()

    @app.agent(topic)  # type: ignore[untyped-decorator]
    async def look(stream: Any) -> AsyncIterator[None]:
        async for event in stream.events():
            await seen.put((event.key, event.value, event.message.timestamp, event.headers))
            yield

    async def run() -> list[Any]:
        await app.start()
        await topic.send(key="a", value=1, timestamp=12.5, headers={"trace": b"1"})
        await topic.send(key="b", value=2, timestamp=13.0)
        events = [await asyncio.wait_for(seen.get(), 60) for _ in range(2)]
        await app.stop()
        return sorted(events)

    assert asyncio.run(run()) == [("a", 1, 12.5, {"trace": b"1"}), ("b", 2, 13.0, {})]
    positions = log.groups()["app"].positions
    assert sum(at.offset for part, at in positions.items() if part.topic == "events") == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"processing_guarantee": "exactly_once"}, 'use "at_least_once"'),
        ({"producer_threaded": True}, "writes in a thread anyway"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    app = app_on(tmp_path, **settings)

    async def run() -> None:
        with pytest.raises(ImproperlyConfigured, match=words):
            _ = app.producer, app.consumer

    asyncio.run(run())


def test_a_log_is_one_place(tmp_path: Path) -> None:
    app = faust.App("app", broker=[url_of(tmp_path), url_of(tmp_path / "b")])
    with pytest.raises(ImproperlyConfigured, match="streamtopo:// needs one URL, not 2"):
        app.transport.open_log()  # type: ignore[attr-defined]


def test_relative_paths_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transport: Any = faust.App("app", broker="streamtopo://./Some/Log?synchronous=normal").transport
    transport.open_log().close()
    assert (tmp_path / "Some" / "Log" / "log.db").is_file()
    transport = faust.App("app", broker="streamtopo:///tmp/x?colour=red").transport
    with pytest.raises(LogError, match='the option "colour"'):
        transport.open_log()


# -- reading


def test_a_read_that_a_seek_overtook_is_read_again(log: EmbeddedLog) -> None:
    numbers(log, *range(10))
    log.create(Topic("others", 1))
    other = TopicPartition("others", 0)
    log.append(other, Columns([None], [b"x"], [0]))
    reader = Reader(log, "group", "earliest")
    reader.seek({PART: 0, other: 0})
    overtaken = reader.read(100, 1, None)
    reader.seek({PART: 4})
    reader.put_back(overtaken)
    again = {batch.source: list(batch.offsets) for batch in reader.read(100, 1, None).batches}
    assert again == {PART: [4, 5, 6, 7, 8, 9], other: [0]}


@pytest.mark.parametrize(("reset", "offsets"), [("earliest", [3, 4]), ("latest", [])])
def test_a_position_that_retention_overtook_is_reset(log: EmbeddedLog, reset: str, offsets: list[int]) -> None:
    numbers(log, *range(5))
    member = log.join("group", [("numbers",)])
    member.assignment()
    member.commit({PART: Position(1)})
    member.leave()
    log.delete_before(PART, 3)
    reader = Reader(log, "group", reset)
    assert reader.seek_to_committed([PART]) == {PART: 1}
    assert [offset for batch in reader.read(10, 0, None).batches for offset in batch.offsets] == offsets


def test_the_end_for_a_recovery_is_a_record_that_is_there(tmp_path: Path) -> None:
    clock = [0]
    log = EmbeddedLog(tmp_path / "log", now=lambda: clock[0])
    config = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
    numbers(log, *range(5), config=config)
    tombstones: list[bytes | None] = [b"%d" % number for number in (2, 3, 4)]
    log.append(PART, Columns(tombstones, [None] * 3, [9] * 3))
    reader = Reader(log, "group", "earliest")
    assert reader.ends([PART]) == {PART: 8}
    for _ in range(3):  # a tombstone outlives the cleaning that removed what it deletes
        log.compact(PART)
        clock[0] += 1000
    assert list(log.read(PART, 0, 100).offsets) == [0, 1]
    assert reader.ends([PART]) == {PART: 2}
    log.close()
