"""Queries of global tables and stores: every worker has all of them, so any worker can answer."""

from __future__ import annotations

from threading import Event
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from streamtopo import Processor, Record, StreamsBuilder, Topology, host, key_value_store
from streamtopo.cli import main
from streamtopo.hosting.answers import Found, NotOwner, Restoring
from streamtopo.logs import Log, Topic
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.web import application
from streamtopo.web.serving import Server
from tests.hosting.conftest import PATIENCE, until

PRICES = {"ale": 5, "rum": 20, "tea": 3}


def priced() -> Topology:
    """A topology in which the number of the global table's subtopology is between those with tasks."""
    builder = StreamsBuilder("priced")
    builder.stream("in", key=str, value=str).group_by_key().count(name="first")
    prices = builder.global_table("prices", key=str, value=int, name="prices")
    joined = builder.stream("out", key=str, value=str).join(prices, lambda _, item: item, lambda _, price: price)
    joined.group_by_key().count(name="last")
    return builder.build()


topology = priced()


@pytest.fixture
def prices(log: Log) -> Log:
    log.create(Topic("prices", 2))
    for item, price in [("tea", 1), *PRICES.items()]:
        target = TopicPartition("prices", partition_of(item.encode(), 2))
        log.append(target, Columns([item.encode()], [price.to_bytes(8)], [1000]))
    log.append(TopicPartition("in", 0), Columns([b"k"], [b"x"], [1000]))
    log.append(TopicPartition("out", 0), Columns([b"k"], [b"tea"], [1000]))
    return log


def test_a_script_queries_its_app(prices: Log, url: str, options: dict[str, Any]) -> None:
    with host(topology, url, **options) as app:
        query = app.query("prices", wait=PATIENCE)
        assert list(query.all()) == sorted(PRICES.items())
        assert (query.find("tea"), query.get("gin"), query.count()) == (Found(3, 1000), None, 3)
        assert list(query.range("b", "s", reverse=True)) == [("rum", 20)]
        for store in ("first", "last"):
            until(lambda: [count for _, count in app.query(store, wait=PATIENCE).all()] == [1])  # noqa: B023
        app.produce("prices", 4, key="tea").result(60)
        until(lambda: query.get("tea") == 4)
    assert isinstance(app.query("prices").ask("tea"), NotOwner)


async def test_over_http_and_a_loop(prices: Log, url: str, options: dict[str, Any]) -> None:
    async with host(topology, url, **options) as app:
        await app.ready(PATIENCE)
        assert [pair async for pair in app.query_async("prices").all()] == sorted(PRICES.items())
        transport = httpx.ASGITransport(application(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            assert (await client.get("/stores/prices/rum")).json()["value"] == 20
            rows = (await client.get("/stores/prices?from=b")).json()["rows"]
            assert [row["key"] for row in rows] == ["rum", "tea"]
            assert "prices" in {store["name"] for store in (await client.get("/stores")).json()}


def test_on_the_command_line_from_a_worker_and_from_the_log(prices: Log, url: str, options: dict[str, Any]) -> None:
    def asked(*arguments: str) -> str:
        module = "tests.hosting.queries.test_global_stores"
        command = ["query", module, *arguments, "--log", url, "--state-dir", options["state_dir"]]
        run = CliRunner().invoke(main, command)
        assert run.exit_code == 0, run.output
        return run.output

    with Server(0) as server, host(topology, url, address=server.address, **options) as app:
        server.serve(app)
        app.ready(PATIENCE)
        from_worker = [asked("prices"), asked("prices", "tea")]
    assert from_worker == [asked("prices"), asked("prices", "tea")] == ["ale\t5\nrum\t20\ntea\t3\n", "tea\t3\n"]
    assert asked("last") == "k\t1\n"


def test_a_query_during_loading_returns_the_progress(prices: Log, url: str, options: dict[str, Any]) -> None:
    for number in range(400):
        prices.append(TopicPartition("prices", 0), Columns([b"%d" % number], [number.to_bytes(8)], [1000]))
    with host(topology, url, chunk=1, **options) as app:
        query = app.query("prices")
        answers = []
        while not isinstance(answer := query.ask("399"), Found):
            answers.append(answer)
        assert answer.value == 399
    restoring = [answer for answer in answers if isinstance(answer, Restoring)]
    assert restoring
    assert all(0 <= one.done <= one.total == 404 for one in restoring)


def test_before_the_last_row_is_written_the_store_is_not_loaded(prices: Log, url: str, options: dict[str, Any]) -> None:
    builder, answers, entered = StreamsBuilder("querying"), list[Any](), Event()

    class Querying(Processor):
        """Queries its own store while it processes, as another thread may at the same moment."""

        def process(self, record: Record) -> None:
            entered.wait(60)
            answers.append(app.query("rows").ask("tea"))
            self.context.get_state_store("rows").put(record.key, record.value)

    builder.add_global_store(key_value_store("rows", key=str, value=int), "prices", Querying, key=str, value=int)
    builder.stream("in").to("out")
    with host(builder.build(), url, chunk=1, **options) as app:
        entered.set()
        until(lambda: isinstance(app.query("rows").ask("tea"), Found))
    assert len(answers) == 4
    assert all(isinstance(answer, Restoring) for answer in answers)
