"""A topology inside a Faust app: `faust -A app worker` runs both, its web server and its commands answer for both."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import faust as faust_package
import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import ConfigError
from streamtopo.hosting.app import HostError
from streamtopo.integrations.faust import attach
from streamtopo.integrations.faust.attachment import _Patience
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.cli.workers import until
from tests.integrations.faust.workers import ENVIRONMENT, FaustWorker, faust, free_port, table, write_app
from tests.long import long

Start = Callable[..., FaustWorker]

SHOP = """
import faust
from streamtopo import StreamsBuilder, Windows
from streamtopo.integrations.faust import attach
from streamtopo.integrations.faust.attachment import _Patience

app = faust.App("shop", broker="kafka://localhost:9092", topic_partitions=2)

def look(value):
    {look}
    return value

builder = StreamsBuilder("counting")
words = builder.stream("in", key=str, value=str).map_values(look).group_by_key()
words.count(name="counts").to_stream().to("out")
words.windowed_by(Windows.tumbling("1s")).count(name="seconds")
counting = attach(app, builder, token="secret", state_dir="state", {options})

seen = app.Table("seen", default=int)

@app.agent(app.topic("out", key_type=str, value_serializer="streamtopo-int"))
async def follow(counts):
    async for word, count in counts.items():
        seen[word] = count

@app.page("/own/{{word}}")
async def own(web, request, word):
    return web.json({{"count": await counting.hosted.query_async("counts", wait="5s").get(word)}})
"""


def shop(folder: Path, look: str = "pass", options: str = "") -> str:
    return write_app(folder, "shop", SHOP.format(look=look, options=options))


def send(log: EmbeddedLog, *keys: str) -> None:
    for name in ("in", "out"):
        log.create(Topic(name, 2))
    for key in keys:
        log.append(TopicPartition("in", partition_of(key.encode(), 2)), Columns([key.encode()], [b"x"], [1000]))


def get(port: int, path: str, token: str = "secret") -> Any:
    request = urllib.request.Request(f"http://localhost:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return None


def members(log: EmbeddedLog) -> Mapping[str, frozenset[TopicPartition]]:
    state = log.groups().get("counting")
    return {} if state is None else state.members


def command(folder: Path, *arguments: str) -> str:
    done = subprocess.run(faust("shop") + list(arguments), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr


def test_a_worker_runs_both_and_answers_for_both(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    send(log, "a", "b", "a", "c/d")
    port = free_port()
    worker = start(shop(tmp_path), port)
    until(lambda: get(port, "/own/a") == {"count": 2})
    until(lambda: table(log, "shop-seen-changelog") == {"a": 2, "b": 1, "c/d": 1})
    row = {"key": "c/d", "value": 1, "timestamp": 1000}
    assert get(port, f"/streamtopo/stores/counts/{urllib.parse.quote('c/d', safe='')}") == row
    assert [row["key"] for row in get(port, "/streamtopo/stores/counts?from=b")["rows"]] == ["b", "c/d"]
    assert get(port, "/streamtopo/stores/counts/nothing") == get(port, "/streamtopo/stores/count") == 404
    assert get(port, "/streamtopo/stores/counts/%FF") == 422
    assert get(port, "/streamtopo/stores/counts/line%0Abreak?partition=9") == 422  # it was found, and is refused
    assert get(port, "/streamtopo/stores", token="other") == 401
    assert get(port, "/streamtopo/health/ready", token="") == {"state": "running"}
    assert json.loads(command(tmp_path, "streamtopo-query", "counts", "a")) == {"key": "a", "value": 2}
    assert "Sub-topology: 0" in command(tmp_path, "streamtopo-topology")
    nobody = command(tmp_path, "streamtopo-query", "counts", "nobody")
    assert nobody == 'Error: store "counts" has no key "nobody"\n'
    assert worker.stop() == 0
    assert members(log) == {}
    rows = [json.loads(line) for line in command(tmp_path, "streamtopo-query", "seconds").splitlines()]
    assert sorted((row["key"], row["start"], row["value"]) for row in rows) == [
        ("a", 1000, 2),
        ("b", 1000, 1),
        ("c/d", 1000, 1),
    ]


def test_a_killed_worker_continues_where_it_was(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    send(log, "a", "b", "a")
    shop(tmp_path)
    port = free_port()
    worker = start("shop", port)
    until(lambda: get(port, "/own/a") == {"count": 2})
    worker.kill()
    send(log, "a", "b")
    start("shop", port)
    until(lambda: get(port, "/own/b") == {"count": 2})
    until(lambda: table(log, "shop-seen-changelog") == {"a": 3, "b": 2})


@long
def test_rows_of_another_worker_are_fetched(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    keys = [f"key {number}" for number in range(10)]
    send(log, *keys)
    shop(tmp_path)
    ports = [free_port(), free_port()]
    for port in ports:
        start("shop", port)
    until(lambda: [len(owned) for owned in members(log).values()] == [1, 1])
    for port in ports:
        for key in keys:
            until(lambda: get(port, f"/own/{urllib.parse.quote(key)}") == {"count": 1})  # noqa: B023


FAILING = """import os, pathlib
    if value == "x":
        with open("failures", "a") as failures: failures.write("x")
        if os.path.getsize("failures") < {times}: raise ValueError("bad")"""


def test_an_engine_that_fails_is_started_again(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    send(log, "a")
    port = free_port()
    start(shop(tmp_path, look=FAILING.format(times=4)), port)
    until(lambda: get(port, "/own/a") == {"count": 1})


def test_patience_has_an_end() -> None:
    error = ValueError()
    assert [_Patience(restarts, 60.0)(error) for restarts in (0, 1)] == ["stop", "replace"]
    patience = _Patience(2, 60.0)
    assert [patience(error) for _ in range(3)] == ["replace", "replace", "stop"]
    forgiving = _Patience(2, 0.0)
    assert [forgiving(error) for _ in range(9)] == ["replace"] * 9


@long
def test_one_that_fails_again_and_again_ends_the_app(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    send(log, "a")
    worker = start(shop(tmp_path, look=FAILING.format(times=1000), options="restarts=1"))
    assert worker.process.wait(60) != 0
    assert worker.said.count("the engine failed: step") == 2
    assert members(log) == {}


def test_what_is_wrong_is_said_where_it_is_attached() -> None:
    app = faust_package.App("alone", broker="streamtopo://./log")
    builder = StreamsBuilder("alone")
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match='no option "colour"'):
        attach(app, builder, colour="red")
    attached = attach(app, builder)
    with pytest.raises(HostError, match='the topology "alone" is not running; it runs once its Faust app has started'):
        _ = attached.hosted
    assert str(attached.host().log).startswith("embedded:")
    kafka = faust_package.App("there", broker=["kafka://one:9093", "kafka://two"])
    assert attach(kafka, builder).host().log == "kafka://one:9093,two:9092"
