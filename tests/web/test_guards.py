"""What the HTTP port refuses, and that it leaves the engine enough file descriptors."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message

from streamtopo.hosting.app import AsyncApp
from streamtopo.hosting.peers.protocol import PATH
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.web import application as application_of
from streamtopo.web import guards, limited_server
from streamtopo.web.serving import Server
from tests.cli.workers import application, committed, log_of, send
from tests.hosting.conftest import until
from tests.web.test_application import app, client_of

__all__ = ["app"]
HEAD = b"POST /rows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

# -- names


@pytest.mark.parametrize(
    ("host", "allowed", "code"),
    [
        ("127.0.0.1:8080", [], 200),
        ("[::1]:8080", [], 200),
        ("10.1.2.3", [], 200),
        ("LocalHost.:8080", [], 200),
        ("words.localhost", [], 200),
        ("evil.example.com", [], 421),
        ("localhost.example.com", [], 421),
        ("127.0.0.1.example.com", [], 421),
        ("", [], 200),
        ("words.example.com", ["Words.example.com"], 200),
        ("a.example.com:80", ["*.example.com"], 200),
        ("a.example.com", ["A.example.com.:8080"], 200),
        ("[::1%25eth0]:80", ["::1"], 200),
        ("example.com", ["*.example.com"], 421),
        ("anexample.com", ["*.example.com"], 421),
        ("evil.example.com", ["*"], 200),
    ],
)
async def test_only_names_of_the_server_are_answered(app: AsyncApp, host: str, allowed: list[str], code: int) -> None:
    async with client_of(app, allowed_hosts=allowed) as client:
        for path in ("/stores/counts/apple", "/tasks", "/health/live", "/nothing"):
            answer = await client.get(path, headers={"Host": host})
            assert answer.status_code == (404 if path == "/nothing" and code == 200 else code)
            assert "error" in answer.json() or code == 200


@pytest.mark.parametrize(
    ("served", "code"),
    [
        ({}, 421),
        ({"token": "secret"}, 421),
        ({"allowed_hosts": ["evil.example.com"]}, 200),
        ({"host": "0.0.0.0"}, 421),
        ({"host": "0.0.0.0", "token": "secret"}, 200),
        ({"host": "0.0.0.0", "token": "secret", "allowed_hosts": ["good.example.com"]}, 421),
    ],
)
async def test_the_names_of_a_server_depend_on_its_address(app: AsyncApp, served: dict[str, object], code: int) -> None:
    with Server(0, **served) as server:  # type: ignore[arg-type]
        server.serve(app)
        async with httpx.AsyncClient(base_url=server.address) as client:
            assert (await client.get("/health/live")).status_code == 200
            answer = await client.get("/health/live", headers={"Host": "evil.example.com"})
    assert answer.status_code == code


@pytest.mark.parametrize("path", ["/tasks/", "/stores/", "/health/live/"])
async def test_nothing_redirects_to_the_name_in_the_request(app: AsyncApp, path: str) -> None:
    async with client_of(app) as client:
        answer = await client.get(path, headers={"Host": "evil.example.com"})
    assert answer.status_code in (200, 404)
    assert "location" not in answer.headers


# -- bodies


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_a_post_that_any_page_could_send_is_refused(app: AsyncApp, kind: str) -> None:
    async with client_of(app) as client:
        answer = await client.post(PATH, content=b"{}", headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()) == (415, {"error": "send application/json"})


async def test_a_body_is_read_up_to_its_limit_only(app: AsyncApp, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0

    async def endless() -> object:
        nonlocal sent
        while True:
            sent += 1000
            yield b" " * 1000

    monkeypatch.setattr(guards, "MAX_BODY_BYTES", 10_000)
    async with client_of(app) as client:
        answer = await client.post(PATH, content=endless(), headers={"Content-Type": "application/json"})  # type: ignore[arg-type]
    assert answer.status_code == 413
    assert "more than 10000 bytes" in answer.json()["error"]
    assert sent <= 12_000


async def test_a_client_that_disconnects_while_sending_is_not_an_error(app: AsyncApp) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pass

    headers = [(b"content-type", b"application/json"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers}
    await application_of(app)(scope, receive, send)


async def test_a_server_closes_the_connection_of_a_body_that_is_too_large(app: AsyncApp) -> None:
    with Server(0) as server:
        server.serve(app)
        with connected(server) as one:
            one.sendall(HEAD % 10**9 + b" " * guards.MAX_BODY_BYTES + b" ")
            assert one.recv(100).startswith(b"HTTP/1.1 413 ")
            assert was_closed(one)


# -- connections


def connected(server: Server) -> socket.socket:
    url = urlsplit(server.address)
    return socket.create_connection((url.hostname, url.port), timeout=60)


def was_closed(one: socket.socket) -> bool:
    """Wait until the other end has closed the connection."""
    try:
        while one.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


@pytest.fixture
def few(app: AsyncApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with at most ten connections."""
    monkeypatch.setattr(limited_server, "_MAX_CONNECTIONS", 10)
    with Server(0) as server:
        server.serve(app)
        yield server


BEGUN = [b"", b"GET /health/live HTTP/1.1\r\nHost: x\r\n", b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"]


@pytest.mark.parametrize("begun", BEGUN, ids=["nothing", "half a request", "a request"])
async def test_idle_connections_are_closed_for_new_ones(few: Server, begun: bytes) -> None:
    with ExitStack() as stack:
        waiting = []
        for _ in range(50):
            waiting.append(stack.enter_context(closing(connected(few))))
            waiting[-1].sendall(begun)
        with closing(http.client.HTTPConnection(urlsplit(few.address).netloc)) as client:
            for _ in range(3):
                client.request("GET", "/health/live")
                answer = client.getresponse()
                assert (answer.status, answer.read()) == (200, b'{"state":"running"}')
        assert few._server._open <= 10
        assert all(was_closed(one) for one in waiting[:39])
    until(lambda: few._server._open == 0)


async def test_an_incomplete_request_is_aborted(app: AsyncApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_server, "_TIMEOUT", 0.1)
    with Server(0) as server:
        server.serve(app)
        for begun in (*BEGUN[:2], HEAD % 9, BEGUN[2] + b"GET"):
            with connected(server) as one:
                one.sendall(begun)
                assert was_closed(one)


async def test_headers_without_end_are_aborted(app: AsyncApp) -> None:
    with Server(0) as server:
        server.serve(app)
        with connected(server) as one:
            one.sendall(b"GET / HTTP/1.1\r\n")
            sent = 0
            with suppress(ConnectionError):
                while sent < 100_000_000:
                    one.sendall(b"x: " + b"y" * 10_000 + b"\r\n")
                    sent += 10_000
            assert was_closed(one)
    assert sent < 10_000_000


async def test_a_client_that_does_not_read_is_aborted(app: AsyncApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_server, "_TIMEOUT", 0.1)
    with Server(0) as server:
        server.serve(app)
        url = urlsplit(server.address)
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that little can be on its way
            one.connect((url.hostname, url.port))
            one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            until(lambda: server._server._open)
            until(lambda: server._server._open == 0)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
from streamtopo.cli import main
main(sys.argv[1:])
"""


def test_a_flood_of_connections_does_not_end_the_worker(tmp_path: Path) -> None:
    """It may open 120 files; enough connections to use them all are opened repeatedly."""
    with closing(log_of(tmp_path)) as log, ExitStack() as stack:
        arguments = ["worker", application(tmp_path), "--web-port", "0", "--web-token", "secret", "--cache", "0"]
        process = subprocess.Popen(
            [sys.executable, "-c", LIMITED, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        stack.callback(process.kill)
        assert process.stdout
        address = next(line.split()[-1] for line in process.stdout if "answers at" in line)
        url = urlsplit(address)
        for number in range(5):
            for _ in range(100):
                one = socket.create_connection((url.hostname, url.port), timeout=60)
                stack.enter_context(closing(one)).sendall(BEGUN[1])
            send(log, [f"{number}-{key}" for key in range(100)])
            until(lambda: committed(log) == 100 * (number + 1))  # noqa: B023
        assert httpx.get(f"{address}/health/ready", timeout=60).status_code == 200
        process.terminate()
        rest = process.stdout.read()
        process.stdout.close()
        assert process.wait(60) == 0, rest
    assert isinstance(log, EmbeddedLog)
    assert "Too many open files" not in rest
