"""The HTTP routes of an app: rows, errors, drawings and health, as clients see them."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import Serde, StreamsBuilder, host
from streamtopo.errors import ConfigError, StepError
from streamtopo.hosting.answers import EngineFailed, NotOwner
from streamtopo.hosting.app import AsyncApp
from streamtopo.hosting.peers import protocol
from streamtopo.hosting.sources.standalone import StandaloneWorker
from streamtopo.logs import Log
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.settings.durations import milliseconds
from streamtopo.wall_clock import wall_clock
from streamtopo.web import application
from streamtopo.web.application import JSON
from streamtopo.web.openapi import WAIT
from streamtopo.web.serving import Server
from tests.engine.test_held_back import Shop, partition_of, per_hour
from tests.hosting.conftest import PATIENCE, counting, send

AS_JSON = {"Content-Type": "application/json"}
WORDS = ["a b", "apple", "banana", "cherry/pie", "ünï"]


def client_of(served: Any, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application(served, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@pytest.fixture
async def app(url: str, log: EmbeddedLog, options: dict[str, Any]) -> AsyncIterator[AsyncApp]:
    send(log, *WORDS)
    async with host(counting(), url, **options) as one:
        await one.ready(PATIENCE)
        while await one.query_async("counts").count() < len(WORDS):
            await asyncio.sleep(0.001)
        yield one


async def test_rows_and_ranges(app: AsyncApp) -> None:
    async with client_of(app) as client:

        async def keys(query: str) -> tuple[list[str], bool]:
            answer = (await client.get(f"/stores/counts{query}")).json()
            return [row["key"] for row in answer["rows"]], answer["more"]

        for word in WORDS:
            answer = await client.get(f"/stores/counts/{word}")
            assert answer.json() == {"key": word, "value": 1, "timestamp": 1000}
        assert await keys("") == (WORDS, False)
        assert await keys("?limit=2") == (WORDS[:2], True)
        assert await keys("?from=apple&to=banana") == (["apple", "banana"], False)
        assert await keys("?prefix=b&wait=1s") == (["banana"], False)
        assert await keys("?reverse=true&limit=1") == (["ünï"], True)
        assert (await client.get("/stores")).json() == [
            {"name": "counts", "kind": "timestamped key-value", "key": "str", "value": "int"}
        ]


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/stores/count/apple", 404, 'there is no store "count"; the topology has counts'),
        ("/stores/count", 404, "the topology has counts"),
        ("/stores/counts/nothing", 404, "no such key"),
        ("/stores/counts?limit=many", 422, "give a number up to 10000"),
        ("/stores/counts?limit=10001", 422, "give a number up to 10000"),
        ("/stores/counts/apple?partition=7", 422, "has the partitions 0 to 2, not 7"),
        ("/stores/counts/apple?wait=soon", 422, "give a duration of up to 60 seconds"),
        (f"/stores/counts/apple?wait={'9' * 400}d", 422, "give a duration of up to 60 seconds"),
        ("/stores/counts/apple?wait=61s", 422, 'wait is "61s"; give a duration of up to 60 seconds, such as 500ms'),
        ("/stores/counts?wait=", 422, 'wait is ""'),
        ("/stores/counts?reverse=null", 422, 'reverse is "null"; give true or false'),
        ("/stores/counts/apple?as_of=now", 422, 'as_of is "now"; give a number'),
        ("/stores/counts?limit=%D9%A3", 422, "give a number up to 10000"),
        ("/topology?format=", 422, 'there is no format ""'),
        ("/stores/counts/%FF", 422, "is not UTF-8"),
        ("/topology?format=gif", 422, 'there is no format "gif"'),
    ],
)
async def test_invalid_requests_are_explained(app: AsyncApp, path: str, code: int, said: str) -> None:
    async with client_of(app) as client:
        answer = await client.get(path)
        assert (answer.status_code, said in answer.json()["error"]) == (code, True), answer.text


async def test_the_topology_is_drawn(app: AsyncApp) -> None:
    async with client_of(app) as client:
        assert (await client.get("/topology")).json()["application_id"] == "counting"
        assert (await client.get("/topology?format=mermaid")).text.lstrip().startswith(("graph", "flowchart", "%%"))
        svg = await client.get("/topology", headers={"accept": "image/svg+xml"})
        assert svg.headers["content-type"] == "image/svg+xml"
        assert svg.text.startswith("<svg")


async def test_health_follows_the_engine(app: AsyncApp) -> None:
    async with client_of(app) as client:
        assert (await client.get("/health/ready")).json() == {"state": "running"}
        while (tasks := (await client.get("/tasks")).json()).get("records") != 5:
            await asyncio.sleep(0.001)
        assert (tasks["state"], tasks["tasks"], tasks["records"]) == ("running", ["0_0", "0_1", "0_2"], 5)
        await app.close()
        assert (await client.get("/health/ready")).status_code == 503
        assert (await client.get("/health/live")).json() == {"state": "not running"}
        gone = await client.get("/stores/counts/apple")
        assert (gone.status_code, gone.json()["answer"], gone.headers["retry-after"]) == (503, "not owner", "1")


async def test_what_time_waits_for(url: str, log: Log) -> None:
    shop = Shop(per_hour("orders"), log=log)
    absent = partition_of(shop.there)
    shop.order(shop.here, 5000)
    shop.run(shop.here, now=wall_clock() - 40_000)
    async with client_of(StandaloneWorker(per_hour("orders"), shop.here)) as client:
        (held,) = (await client.get("/tasks")).json()["held_back"]
    assert (held["task"], held["partitions"], held["why"]) == (f"0_{absent}", [f"orders/{absent}"], "not started")
    assert held["text"].startswith(f"time waits for orders/{absent} (task 0_{absent}): not started, for 4")


@pytest.mark.parametrize("content", ["\ud800", 2**70, [1, "é"]])
def test_answers_are_unchanged_by_json(content: Any) -> None:
    assert json.loads(bytes(JSON(content).body)) == content


def test_a_server_can_be_connected_to_before_it_serves() -> None:
    with Server(0) as server:
        socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2]))).close()


async def test_lifespan_events_are_answered(app: AsyncApp) -> None:
    asked = iter(["lifespan.startup", "lifespan.shutdown"])
    said = []

    async def receive() -> dict[str, Any]:
        return {"type": next(asked)}

    async def send(message: Any) -> None:
        said.append(message["type"])

    await application(app)({"type": "lifespan", "state": {}}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_without_the_token_only_health_is_answered(app: AsyncApp) -> None:
    async with client_of(app, token="secret") as client:
        assert (await client.get("/health/ready")).status_code == 200
        for headers in (
            {},
            {"authorization": "Bearer other"},
            {"authorization": "secret"},
            {"authorization": "Basic secret"},
        ):
            for path in ("/stores", "/tasks", "/stores/counts/apple", "/openapi.json", "/stores/x/health/"):
                assert (await client.get(path, headers=headers)).status_code == 401, path
        for shown in ("Bearer secret", "bearer  secret"):  # the scheme's name may be written so, says HTTP
            assert (await client.get("/stores", headers={"authorization": shown})).status_code == 200


async def test_an_empty_token_is_refused(app: AsyncApp) -> None:
    with pytest.raises(ConfigError, match="the token is empty"):
        application(app, token="")
    from streamtopo.cli import main

    run = CliRunner().invoke(main, ["worker", "apps.wordcount", "--web-port", "0", "--web-token", ""])
    assert (run.exit_code, "--web-token is empty" in run.output) == (1, True)


async def test_every_path_is_described(app: AsyncApp) -> None:
    async with client_of(app) as client:
        document = (await client.get("/openapi.json")).json()
        routes = {route.path.replace(":row_key", "") for route in application(app).routes}  # type: ignore[attr-defined]
        assert document["paths"].keys() == routes - {"/rows"}
        for path in document["paths"]:
            answer = await client.get(path.format(store="counts", key="apple"))
            assert answer.status_code == 200, path


async def test_the_description_says_what_needs_the_token(app: AsyncApp) -> None:
    async with client_of(app, token="secret") as client:
        document = (await client.get("/openapi.json", headers={"authorization": "Bearer secret"})).json()
        assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in document["paths"].items():
            described = methods["get"]
            answer = await client.get(path.format(store="counts", key="apple"))
            assert [answer.status_code == 401] * 2 == ["security" in described, "401" in described["responses"]]
    async with client_of(app) as client:
        assert "components" not in (await client.get("/openapi.json")).json()


durations = st.from_regex(r"\A[0-9]{1,6}(\.[0-9]{1,4})?(ms|s|m|h|d)\Z")


@given(text=st.one_of(durations, st.text(max_size=8), st.from_regex(WAIT.replace("$", r"\Z"))))
def test_the_described_wait_is_what_is_accepted(text: str) -> None:
    """Programs that generate requests from the description find no difference."""
    try:
        within = milliseconds(text) <= 60_000
    except ConfigError:
        within = False
    assert re.fullmatch(WAIT, text) is None or within
    if within and re.fullmatch("[1-9][0-9]*(ms|s)", text):
        assert re.fullmatch(WAIT, text)


def looking() -> bool:
    """Return whether a thread polls the tasks for waiting queries."""
    return any(thread.name == "streamtopo poller" for thread in threading.enumerate())


async def test_requests_of_disconnected_clients_are_cancelled(url: str, log: Log, options: dict[str, Any]) -> None:
    nobody = "http://127.0.0.1:9"
    async with host(counting(), url, **options) as app, host(counting(), url, address=nobody, **options) as owner:
        while not ((metrics := owner.metrics()) and metrics.tasks):
            await asyncio.sleep(0.001)
        answers = [(word, await app.query_async("counts", wait="1s").ask(word)) for word in WORDS]
        away = next(word for word, answer in answers if isinstance(answer, NotOwner))
        hung_up = asyncio.Event()
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "method": "GET", "path": f"/stores/counts/{away}", "headers": []}
        asked = asyncio.create_task(application(app)({**scope, "query_string": b"wait=60s"}, receive, send))
        while not looking():
            await asyncio.sleep(0.001)
        hung_up.set()
        await asked
        while looking():
            await asyncio.sleep(0.001)


async def test_other_processes_are_answered_with_bytes(app: AsyncApp) -> None:
    async with client_of(app) as client:
        for question in (b"", b"[]", b"{}", b'{"store": "counts"}', b'{"store":"counts","partition":0,"key":"\xff"}'):
            assert (await client.post("/rows", content=question, headers=AS_JSON)).status_code == 422
        answers = [
            (await client.post("/rows", json={"store": "counts", "partition": number, "key": "YXBwbGU="})).json()
            for number in (0, 9)
        ]
        assert [set(answer) for answer in answers] == [{"row"}, {"refused"}]


async def test_one_partition_can_be_queried(app: AsyncApp) -> None:
    async with client_of(app) as client:
        one = [
            (await client.get("/stores/counts/apple", params={"partition": number})).status_code for number in (0, 1, 2)
        ]
        assert sorted(one) == [200, 404, 404]
        questions = [{"store": "counts", "partition": number, "key": "YXBwbGU=", "alone": True} for number in (0, 1, 2)]
        rows = [(await client.post("/rows", json=question)).json()["row"] for question in questions]
        assert [row is not None for row in rows] == [code == 200 for code in one]


async def test_keys_can_be_other_types_than_text(url: str, log: Log, options: dict[str, Any]) -> None:
    builder = StreamsBuilder("orders")
    builder.table("in", key=int, value=dict, name="orders").to_stream().to("out")
    async with host(builder, url, **options) as app:
        await app.ready(PATIENCE)
        await app.produce("in", {"item": "tea"}, key=-7)
        async with client_of(app) as client:
            while (answer := await client.get("/stores/orders/-7")).status_code == 404:
                pass
            assert answer.json()["value"] == {"item": "tea"}
            assert (await client.get("/stores/orders/seven")).status_code == 422
            assert json.loads((await client.get("/stores/orders?from=-10&to=-5")).text)["rows"][0]["key"] == -7


LARGE = 10**23 + 1
"""An integer that is not exact as a float."""


@dataclass
class Account:
    balance: int


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (Serde("large", lambda number: str(number).encode(), int), LARGE, LARGE),
        (dict, {"n": LARGE}, {"n": LARGE}),
        (Account, Account(-LARGE), {"balance": -LARGE}),
    ],
    ids=["serde", "dict", "dataclass"],
)
async def test_integers_of_any_size_are_shown(
    url: str, log: Log, options: dict[str, Any], kind: Any, value: Any, shown: Any
) -> None:
    builder = StreamsBuilder("large")
    builder.table("in", key=str, value=kind, name="large").to_stream().to("out")
    async with host(builder, url, **options) as app:
        await app.ready(PATIENCE)
        await app.produce("in", value, key="ä")
        async with client_of(app) as client:
            while (answer := await client.get("/stores/large/ä")).status_code == 404:
                await asyncio.sleep(0.001)
            assert (answer.json()["key"], answer.json()["value"]) == ("ä", shown)
            assert (await client.get("/stores/large")).json()["rows"] == [{"key": "ä", "value": shown}]


async def test_keys_with_line_breaks_are_not_cut(app: AsyncApp, log: EmbeddedLog) -> None:
    keys = ["apple\n", "apple\npie", "\n"]
    send(log, *keys)
    async with client_of(app) as client:
        for key in keys:
            path = f"/stores/counts/{quote(key)}"
            while (answer := await client.get(path)).status_code == 404:
                await asyncio.sleep(0.001)
            assert answer.json() == {"key": key, "value": 1, "timestamp": 1000}


@pytest.mark.parametrize("path", ["?from=%FF", "?to=a%ff", "?prefix=%C3", "/apple?wait=%FF"])
async def test_bytes_that_are_not_utf_8_are_not_a_key(app: AsyncApp, path: str) -> None:
    async with client_of(app) as client:
        answer = await client.get(f"/stores/counts{path}")
        assert (answer.status_code, "is not UTF-8" in answer.json()["error"]) == (422, True)


async def test_many_rows_for_other_processes_are_read_outside_the_loop(
    app: AsyncApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_loop = []

    def answer(*question: Any) -> Any:
        on_the_loop.append(threading.current_thread() is threading.main_thread())
        return protocol.answer(*question)

    monkeypatch.setattr(import_module("streamtopo.web.application"), "answer", answer)
    async with client_of(app) as client:
        for asked in ({"key": "YXBwbGU="}, {"span": ["", None, False, None]}):
            assert (await client.post("/rows", json={"store": "counts", "partition": 0, **asked})).status_code == 200
    assert on_the_loop == [True, False]


async def test_a_query_of_a_failed_engine_says_so_at_once(url: str, log: Log, options: dict[str, Any]) -> None:
    """It does not wait for rows that nothing will bring, and does not show data of the record."""
    async with host(counting(lambda value: int(value)), url, **options) as app, client_of(app) as client:
        send(log, "a", value="secret")
        with pytest.raises(StepError, match="secret"):
            await app.ended()
        for path in ("/stores/counts/a?wait=60s", "/stores/counts?wait=60s"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["answer"]) == (503, "engine failed")
            assert re.search("the engine failed: step .+ failed on in/. offset 0: ValueError; ", answer.text)
            assert "secret" not in answer.text
        with pytest.raises(EngineFailed):
            app.query("counts", wait="60s").get("a")
