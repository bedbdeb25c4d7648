"""Connections to other processes: kept, opened again where the other end closed them, given up if nobody answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streamtopo.hosting.peers.http_client import HttpClient


class Answering(ThreadingHTTPServer):
    """Says how many connections it has had; closes each after this many answers."""

    daemon_threads = True

    def __init__(self, answers: int) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers = answers
        self.connections = 0
        self.closed = threading.Semaphore(0)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def shutdown_request(self, request: object) -> None:
        super().shutdown_request(request)  # type: ignore[arg-type]
        self.closed.release()


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answering

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.answer_bytes = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = f"{self.path} {self.server.connections}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.answer_bytes += 1
        self.close_connection = self.answer_bytes == self.server.answers

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(answers: int) -> Iterator[Answering]:
    with Answering(answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def connections() -> Iterator[HttpClient]:
    one = HttpClient()
    yield one
    one.close()


def test_a_connection_is_reused(connections: HttpClient) -> None:
    with serving(answers=3) as server:
        for _ in range(3):
            assert connections.post(server.address + "/mounted/", "/rows", b"?", {})[:2] == (200, b"/mounted/rows 1")


def test_a_closed_connection_is_opened_again(connections: HttpClient) -> None:
    with serving(answers=1) as server:
        for number in (1, 2, 3):
            assert connections.post(server.address, "/rows", b"?", {})[:2] == (200, f"/rows {number}".encode())
            assert server.closed.acquire(timeout=60)


def test_a_missing_answer_is_an_error(connections: HttpClient) -> None:
    with serving(answers=1) as server:
        connections.post(server.address, "/rows", b"?", {})
        assert server.closed.acquire(timeout=60)
    with pytest.raises(ConnectionRefusedError):
        connections.post(server.address, "/rows", b"?", {})


def test_connections_to_ended_processes_are_closed(connections: HttpClient) -> None:
    with serving(answers=9) as staying, serving(answers=9) as going:
        for server in (staying, going):
            connections.post(server.address, "/rows", b"?", {})
        connections.keep_only({staying.address})
        assert going.closed.acquire(timeout=60)
        assert connections.post(staying.address, "/rows", b"?", {})[:2] == (200, b"/rows 1")
        assert connections.post(going.address, "/rows", b"?", {})[:2] == (200, b"/rows 2")
