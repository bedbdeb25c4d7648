"""Queries of stores: committed rows, from any thread, while records are processed, and errors with a type."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Windowed, Windows, host
from streamtopo.errors import SerdeError
from streamtopo.hosting.answers import Found, NotOwner, QueryError, Restoring, UnknownStore
from streamtopo.hosting.app import App
from streamtopo.hosting.queries.local_rows import LocalRows
from streamtopo.logs import Log
from streamtopo.stores.build import key_value_store
from tests.hosting.conftest import PATIENCE, counting, send, until

WORDS = ["apple", "apricot", "banana", "blueberry", "cherry", "date"]


@pytest.fixture
def app(url: str, log: Log, options: dict[str, Any]) -> Iterator[App]:
    """An app that has counted words in three tasks, each as often as its position says."""
    send(log, *(word for times, word in enumerate(WORDS, 1) for _ in range(times)))
    with host(counting(), url, **options) as one:
        one.ready(PATIENCE)
        expected = [(word, times) for times, word in enumerate(WORDS, 1)]
        until(lambda: list(one.query("counts").all()) == expected)
        yield one


def test_keys_of_all_tasks_are_found(app: App) -> None:
    counts = app.query("counts")
    assert [counts.get(word) for word in WORDS] == [1, 2, 3, 4, 5, 6]
    assert counts.get("nothing") is None
    assert counts.find("apple") == Found(1, 1000)
    assert counts.ask("apple") == Found(1, 1000)
    assert counts.ask("nothing") == Found(None)


def test_ranges_are_in_the_order_of_keys_across_tasks(app: App) -> None:
    counts = app.query("counts")
    everything = list(zip(WORDS, range(1, 7), strict=True))
    assert list(counts.all()) == everything
    assert list(counts.range("apricot", "cherry")) == everything[1:5]
    assert list(counts.range(reverse=True)) == everything[::-1]
    assert list(counts.range("b", "c", reverse=True)) == everything[2:4][::-1]
    assert list(counts.prefix("ap")) == everything[:2]
    assert list(counts.prefix("")) == everything
    assert counts.count() == 6


def test_one_partition_can_be_queried_alone(app: App) -> None:
    parts = [dict(app.query("counts", partition=number).all()) for number in range(3)]
    assert {word: count for part in parts for word, count in part.items()} == dict(app.query("counts").all())
    assert sum(map(len, parts)) == 6
    for number, part in enumerate(parts):
        assert [app.query("counts", partition=number).get(word) for word in WORDS] == [part.get(word) for word in WORDS]
    with pytest.raises(QueryError, match="has the partitions 0 to 2, not 3"):
        app.query("counts", partition=3)


async def test_queries_on_a_loop_are_the_same(url: str, log: Log, options: dict[str, Any]) -> None:
    send(log, *WORDS)
    async with host(counting(), url, **options) as app:
        await app.ready(PATIENCE)
        counts = app.query_async("counts", wait=PATIENCE)
        while await counts.count() < len(WORDS):
            await asyncio.sleep(0)
        answers = await asyncio.gather(*(counts.get(WORDS[n % 6]) for n in range(1000)))
        assert set(answers) == {1}
        assert await counts.ask("apple") == Found(1, 1000)
        assert [key async for key, _ in counts.all()] == WORDS
        assert [key async for key, _ in counts.prefix("b")] == ["banana", "blueberry"]
        assert [key async for key, _ in counts.range("b", None, reverse=True)] == WORDS[:1:-1]


def test_invalid_queries_are_explained(app: App) -> None:
    with pytest.raises(UnknownStore, match='there is no store "count"; the topology has counts'):
        app.query("count")
    with pytest.raises(SerdeError):
        app.query("counts").get(7)
    with pytest.raises(QueryError, match="null key"):
        app.query("counts").get(None)


def test_a_store_without_a_name_is_told_how_to_get_one(url: str, log: Log, options: dict[str, Any]) -> None:
    builder = StreamsBuilder("unnamed")
    builder.stream("in", key=str, value=str).group_by_key().count()
    with host(builder, url, **options) as app, pytest.raises(UnknownStore, match=r'as in count\(name="counts"\)'):
        app.query("counts")


def test_the_buffer_of_a_join_cannot_be_queried(url: str, log: Log, options: dict[str, Any]) -> None:
    builder = StreamsBuilder("joined")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("in", "out"))
    left.join(right, lambda one, other: one + other, within="1m").group_by_key().count(name="joined")
    with host(builder, url, **options) as app:
        (waiting, _) = (one.name for one in builder.build().subtopologies()[0].stores if one.name != "joined")
        with pytest.raises(UnknownStore, match=f'there is no store "{waiting}"; the topology has joined'):
            app.query(waiting)


def test_a_thousand_threads_query_while_the_engine_runs(app: App, log: Log) -> None:
    done = threading.Event()

    def feed() -> None:
        while not done.is_set():
            for word in WORDS:
                app.produce("in", "x", key=word)
            app.produce("in", "x", key="apple").result(60)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    before = dict(zip(WORDS, range(1, 7), strict=True))

    def ask(number: int) -> bool:
        word = WORDS[number % 6]
        first, second = (app.query("counts").get(word) or 0 for _ in range(2))
        return bool(before[word] <= first <= second)

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(ask, range(1000)))
    done.set()
    feeder.join(60)


def test_uncommitted_rows_are_not_visible(url: str, log: Log, options: dict[str, Any]) -> None:
    asked: list[Any] = []
    apps: list[App] = []

    def look(value: str) -> str:
        if apps and value == "look":
            asked.append(apps[0].query("counts").get("a"))
        return value

    with host(counting(look), url, **options) as app:
        app.ready(PATIENCE)
        apps.append(app)
        changes = app.consume("out", from_beginning=True)
        for expected in (1, 2):
            app.produce("in", "look", key="a").result(60)
            assert next(changes).value == expected
            until(lambda: app.query("counts").get("a") == expected)  # noqa: B023
    assert asked == [None, 1]


def test_keys_outside_of_the_partition_of_their_hash_are_found(url: str, log: Log, options: dict[str, Any]) -> None:
    class Tally(Processor):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            self.store = context.get_state_store("tally")

        def process(self, record: Record) -> None:
            metadata = self.context.record_metadata()
            assert metadata is not None
            key = f"total of {metadata.partition}"
            self.store.put(key, (self.store.get(key) or 0) + 1)
            self.context.forward(record)

    builder = StreamsBuilder("tally")
    builder.add_state_store(key_value_store("tally", key=str, value=int))
    builder.stream("in", key=str, value=str).process(Tally, stores=["tally"]).to("out")
    with host(builder, url, **options) as app:
        app.ready(PATIENCE)
        changes = app.consume("out")
        for number in range(3):
            app.produce("in", "x", key="k", partition=number).result(60)
            next(changes)
        tally = app.query("tally")
        until(lambda: [tally.get(f"total of {number}") for number in range(3)] == [1, 1, 1])
        assert tally.find("total of 0") == Found(1, -1)


@dataclass
class Order:
    item: str
    count: int


def test_models_are_returned_as_models(url: str, log: Log, options: dict[str, Any]) -> None:
    builder = StreamsBuilder("orders")
    builder.table("in", key=int, value=Order, name="orders").to_stream().to("out")
    with host(builder, url, **options) as app:
        app.ready(PATIENCE)
        changes = app.consume("out")
        app.produce("in", Order("tea", 3), key=-5).result(60)
        app.produce("in", Order("jam", 1), key=5).result(60)
        assert {next(changes).key, next(changes).key} == {-5, 5}
        orders = app.query("orders")
        until(lambda: orders.count() == 2)
        assert orders.get(-5) == Order("tea", 3)
        assert dict(orders.all()) == {-5: Order("tea", 3), 5: Order("jam", 1)}


# -- when the rows are not here


def test_answers_before_the_start_and_after_the_end_are_typed(url: str, log: Log, options: dict[str, Any]) -> None:
    send(log, "a")
    with host(counting(), url, **options) as app:
        counts = app.query("counts")
        assert isinstance(counts.ask("a"), Found | NotOwner | Restoring)
        app.ready(PATIENCE)
        app.close()
        assert isinstance(counts.ask("a"), NotOwner)
        with pytest.raises(NotOwner, match='partition 0 of store "counts" is not here'):
            list(counts.all())


def test_a_query_during_a_restore_returns_the_progress(
    url: str, log: Log, options: dict[str, Any], tmp_path: Any
) -> None:
    send(log, *(str(number) for number in range(3000)))
    with host(counting(), url, **options) as app:
        app.ready(PATIENCE)
        until(lambda: app.query("counts").count() == 3000)
    answers: list[Any] = []
    asking: list[App] = []

    def ask(new: Any, old: Any) -> None:
        if new.value == "running":
            answers.append(asking[0].query("counts").ask("7"))

    elsewhere: dict[str, Any] = {"state_dir": str(tmp_path / "elsewhere"), "chunk": 10}
    with host(counting(), url, on_state_change=ask, **elsewhere) as app:
        asking.append(app)
        counts = app.query("counts")
        while not isinstance(answer := counts.ask("7"), Found):
            answers.append(answer)
        assert answer.value == 1
    restoring = [one for one in answers if isinstance(one, Restoring) and one.total]  # before it is opened: 0 of 0
    assert restoring
    assert all(one.total > 10 and 0 <= one.progress <= 1 for one in restoring)
    assert all(one.store == "counts" for one in restoring)


def test_a_query_can_wait_for_a_restore(url: str, log: Log, options: dict[str, Any]) -> None:
    with host(counting(), url, **options) as app:
        assert app.query("counts", wait=PATIENCE).get("a") is None
        assert list(app.query("counts", wait=PATIENCE).all()) == []


class Unwell(BaseHTTPRequestHandler):
    """The response of a proxy for a service that is starting or has ended."""

    def do_POST(self) -> None:
        self.send_error(503)

    def log_message(self, *_: object) -> None:
        pass


def test_an_owner_that_cannot_answer_now_is_a_typed_answer(url: str, log: Log, options: dict[str, Any]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Unwell) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        with host(counting(), url, **options) as app, host(counting(), url, address=address, **options) as owner:
            counts = app.query("counts")
            refused: list[NotOwner] = []
            while not refused:
                answers = [counts.ask(word) for word in WORDS]
                refused = [answer for answer in answers if isinstance(answer, NotOwner) and answer.address]
            assert all(f"{address} has it, but does not answer (status 503)" in str(answer) for answer in refused)
            owner.close()
            assert [app.query("counts", wait=PATIENCE).get(word) for word in WORDS] == [None] * len(WORDS)
        server.shutdown()
        thread.join()


async def test_a_hanging_owner_does_not_block_the_service(url: str, log: Log, options: dict[str, Any]) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Hanging(Unwell):
        def do_POST(self) -> None:
            asked.set()
            go_on.wait(60)
            self.send_error(503)

    with ThreadingHTTPServer(("127.0.0.1", 0), Hanging) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        async with host(counting(), url, **options) as app, host(counting(), url, address=address, **options) as owner:
            while not ((metrics := owner.metrics()) and metrics.tasks):
                await asyncio.sleep(0.001)
            asking = [asyncio.create_task(app.query_async("counts").ask(word)) for word in WORDS * 10]
            while not asked.is_set():
                await asyncio.sleep(0.001)
            async with asyncio.timeout(5):  # half of what a query waits for its answer
                assert await asyncio.to_thread(int) == 0
            go_on.set()
            assert {type(answer) for answer in await asyncio.gather(*asking)} == {Found, NotOwner}
        server.shutdown()


def ask_again_and_again(app: App, stop: threading.Event, wrong: list[Any]) -> None:
    counts = app.query("counts")
    try:
        while not stop.is_set():
            answers = [counts.ask(word) for word in WORDS]
            wrong.extend(one for one in answers if isinstance(one, Found) and one.value != 1)
            with suppress(NotOwner, Restoring):
                found = [key for key, _ in counts.all()]
                wrong.extend([] if found == WORDS else [found])
    except BaseException as error:
        wrong.append(error)


def test_queries_are_answered_while_tasks_come_and_go(url: str, log: Log, options: dict[str, Any]) -> None:
    """A second app takes tasks and returns them: the answers of the first are correct or typed, never another error."""
    send(log, *WORDS)
    stop = threading.Event()
    wrong: list[Any] = []
    with host(counting(), url, **options) as app:
        app.ready(PATIENCE)
        until(lambda: app.query("counts").count() == len(WORDS))
        asking = [threading.Thread(target=ask_again_and_again, args=(app, stop, wrong), daemon=True) for _ in range(3)]
        for thread in asking:
            thread.start()
        for _ in range(5):
            with host(counting(), url, **options) as other:
                other.ready(PATIENCE)
                until(lambda: (found := other.metrics()) and found.tasks)
        stop.set()
        for thread in asking:
            thread.join(60)
        assert wrong == []
        assert app.query("counts", wait=PATIENCE).count() == len(WORDS)


def test_a_scan_whose_task_closes_ends_with_a_typed_answer(app: App) -> None:
    for number in range(5000):  # more than are read at once
        app.produce("in", "x", key=str(number))
    until(lambda: app.query("counts").count() == 5000 + len(WORDS))
    rows = app.query("counts").all()
    next(rows)
    app.close()
    with pytest.raises((NotOwner, Restoring)):
        list(rows)


def test_a_range_waits_for_its_remaining_rows_when_tasks_move(app: App, url: str, options: dict[str, Any]) -> None:
    """Another app takes some of the tasks in the middle, and returns them."""
    for number in range(5000):
        app.produce("in", "x", key=str(number))
    until(lambda: app.query("counts").count() == 5000 + len(WORDS))
    expected = sorted([*map(str, range(5000)), *WORDS])
    forward, backward = app.query("counts", wait=PATIENCE).all(), app.query("counts", wait=PATIENCE).range(reverse=True)
    found, before = [next(forward)[0]], [next(backward)[0]]
    with host(counting(), url, address="http://127.0.0.1:9", **options) as other:  # it cannot be asked
        until(lambda: (metrics := other.metrics()) and metrics.tasks)
        with pytest.raises((NotOwner, Restoring)):
            app.query("counts").count()
    assert found + [key for key, _ in forward] == expected
    assert before + [key for key, _ in backward] == expected[::-1]


async def test_a_range_on_a_loop_waits_for_its_remaining_rows_when_tasks_move(
    url: str, log: Log, options: dict[str, Any]
) -> None:
    send(log, *(str(number) for number in range(3000)))
    async with host(counting(), url, **options) as app:
        await app.ready(PATIENCE)
        while await app.query_async("counts", wait=PATIENCE).count() < 3000:
            await asyncio.sleep(0.001)
        rows = app.query_async("counts", wait=PATIENCE).all()
        found = [(await anext(rows))[0]]
        async with host(counting(), url, address="http://127.0.0.1:9", **options) as other:
            while not ((metrics := other.metrics()) and metrics.tasks):
                await asyncio.sleep(0.001)
        assert found + [key async for key, _ in rows] == sorted(map(str, range(3000)))


def test_apps_on_one_log_answer_for_each_other(app: App, url: str, options: dict[str, Any]) -> None:
    """Without an address, like processes of one machine that share an embedded log."""
    with host(counting(), url, **options) as other:
        until(lambda: all((metrics := one.metrics()) and metrics.tasks for one in (app, other)))
        for one in (app, other):
            counts = one.query("counts", wait=PATIENCE)
            assert [counts.get(word) for word in WORDS] == [1, 2, 3, 4, 5, 6]
            assert ([key for key, _ in counts.all()], counts.get("nothing")) == (WORDS, None)
    counts = app.query("counts", wait=PATIENCE)
    assert [counts.get(word) for word in WORDS] == [1, 2, 3, 4, 5, 6]


def test_an_app_that_cannot_create_a_socket_works_alone(
    url: str,
    log: Log,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with host(counting(), url, **options) as app:
        assert app.query("counts", wait=PATIENCE).get("a") is None
    assert "other processes cannot query this one" in caplog.text
    assert not list(folder.iterdir())


def test_a_windowed_key_is_in_the_partition_of_its_inner_key(
    url: str, log: Log, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a store without segments. Other processes are queried for that partition, and answer with their rows."""
    monkeypatch.setattr(LocalRows, "_sibling_tasks", lambda *_: [])
    builder = StreamsBuilder("doubled")
    counted = builder.stream("in", key=str, value=str).group_by_key().windowed_by(Windows.tumbling("1s")).count()
    counted.map_values(lambda count: 2 * count, name="doubled").to_stream().to("out")
    send(log, *WORDS)
    with host(builder, url, **options) as app:
        app.ready(PATIENCE)
        doubled = app.query("doubled")
        until(lambda: doubled.count() == len(WORDS))
        assert [doubled.get(Windowed(word, 1000, 2000)) for word in WORDS] == [2] * len(WORDS)
