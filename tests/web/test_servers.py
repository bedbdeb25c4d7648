"""Services under real servers: reloaded, with several workers, with Litestar, under load, and killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.hosting.conftest import until
from tests.web.uvicorns import Service

Start = Callable[..., Service]
WORDS = [f"word-{number}" for number in range(40)]

PLAIN = "from apps.wordcount.service import service\n"

LITESTAR = """
from typing import Any

from litestar import Litestar, asgi, get, post
from litestar.di import Provide

from apps.wordcount import topology
from streamtopo import lifespan
from streamtopo.hosting.app import AsyncApp
from streamtopo.web import application, hosted


@post("/sentences", status_code=202)
async def send(data: dict[str, str], words: AsyncApp) -> dict[str, int]:
    return {"offset": await words.produce("sentences", data["sentence"])}


@get("/words/{word:str}")
async def count(word: str, words: AsyncApp) -> dict[str, Any]:
    return {"count": await words.query_async("counts", wait="5s").get(word)}


service = Litestar(
    [send, count, asgi("/streamtopo", is_mount=True, copy_scope=True)(application(lambda: service.state.streamtopo))],
    lifespan=[lifespan(topology, create_topics=4)],
    dependencies={"words": Provide(hosted)},
)
"""

STOPPED_IN_ITS_COMMIT = """
import pathlib, time
from streamtopo.engine.task import task

write = task.Task.write

def slow(*arguments):
    if pathlib.Path("stop here").exists():
        pathlib.Path("in the commit").touch()
        while not pathlib.Path("go on").exists():
            time.sleep(0.001)
    write(*arguments)

task.Task.write = slow

from apps.wordcount.service import service
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    services: list[Service] = []

    def start(text: str = PLAIN, *options: str) -> Service:
        (tmp_path / "served.py").write_text(text)
        services.append(Service(tmp_path, *options, app="served:service"))
        return services[-1]

    yield start
    for one in services:
        one.end()


def say(service: Service, *words: str) -> None:
    sentence = {"sentence": " ".join(words)}
    httpx.post(f"{service.url}/sentences", json=sentence, timeout=60).raise_for_status()


def counted(service: Service, word: str) -> int | None:
    try:
        answer = httpx.get(f"{service.url}/words/{word}", timeout=60)
    except httpx.TransportError:
        return None  # it is between two lives
    return int(answer.json()["count"] or 0) if answer.status_code == 200 else None


def test_a_service_is_reloaded_when_its_code_changes(tmp_path: Path, start: Start) -> None:
    service = start(PLAIN, "--reload", "--reload-dir", ".")
    service.wait_for("Application startup complete")
    say(service, "again")
    until(lambda: counted(service, "again") == 1)
    (tmp_path / "served.py").write_text(PLAIN + "service.title = 'changed'\n")
    service.wait_for("Application startup complete", 2)
    until(lambda: httpx.get(f"{service.url}/openapi.json", timeout=60).json()["info"]["title"] == "changed")
    say(service, "again")
    until(lambda: counted(service, "again") == 2)
    service.end()
    assert "Traceback" not in service.said


def test_workers_at_one_port_share_the_work(tmp_path: Path, start: Start) -> None:
    service = start(PLAIN, "--workers", "2")
    service.wait_for("Application startup complete", 2)
    say(service, *WORDS)
    log = EmbeddedLog(tmp_path / ".streamtopo")
    until(lambda: sorted(len(owned) for owned in log.groups()["wordcount"].members.values()) == [4, 4])
    for word in WORDS:
        until(lambda: httpx.get(f"{service.url}/streamtopo/stores/counts/{word}").json().get("value") == 1)  # noqa: B023
    service.end()
    until(lambda: log.groups()["wordcount"].members == {})
    log.close()
    assert "Traceback" not in service.said


def test_litestar(start: Start) -> None:
    pytest.importorskip("litestar")
    service = start(LITESTAR)
    say(service, "to", "be", "or", "not", "to", "be/")
    until(lambda: counted(service, "to") == 2)
    rows = httpx.get(f"{service.url}/streamtopo/stores/counts?prefix=be").json()["rows"]
    assert rows == [{"key": "be", "value": 1}, {"key": "be/", "value": 1}]
    for key, path in {"to": "to", "be/": "be%2F"}.items():
        assert httpx.get(f"{service.url}/streamtopo/stores/counts/{path}").json()["key"] == key
    assert httpx.get(f"{service.url}/streamtopo/health/ready").json() == {"state": "running"}
    service.end()
    assert "Traceback" not in service.said


@pytest.mark.parametrize("code", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_the_middle_of_a_commit_loses_and_repeats_nothing(
    tmp_path: Path, start: Start, code: signal.Signals
) -> None:
    """The log has committed, but the stores have not: they are restored."""
    service = start(STOPPED_IN_ITS_COMMIT)
    say(service, "once", "twice", "twice")
    until(lambda: counted(service, "twice") == 2)
    (tmp_path / "stop here").touch()
    say(service, "twice")
    until((tmp_path / "in the commit").exists)
    service.process.send_signal(code)
    if code == signal.SIGTERM:
        service.wait_for("Shutting down")
        (tmp_path / "go on").touch()
    service.process.wait(60)
    (tmp_path / "go on").touch()
    other = start(PLAIN)
    until(lambda: (counted(other, "once"), counted(other, "twice")) == (1, 3))


def test_a_thousand_queries_at_once(start: Start) -> None:
    service = start()
    say(service, *WORDS)
    for word in WORDS:
        until(lambda: counted(service, word) == 1)  # noqa: B023

    async def ask(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], word: str) -> bytes:
        reader, writer = connection
        path = f"/streamtopo/stores/counts/{word}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
        return await reader.read()

    async def ask_at_once() -> list[bytes]:
        url = httpx.URL(service.url)
        connections = [await asyncio.open_connection(url.host, url.port) for _ in range(1000)]
        try:
            return await asyncio.gather(*(ask(one, WORDS[n % 40]) for n, one in enumerate(connections)))
        finally:
            for _, writer in connections:
                writer.close()

    answers = asyncio.run(ask_at_once())
    assert [b'"value":1,' in answer for answer in answers] == [True] * 1000
