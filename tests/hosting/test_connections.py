"""Connections to other processes: kept, opened anew where the other end closed them, given up if nobody answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streamtopo.hosting.connections import Connections


class Answering(ThreadingHTTPServer):
    """Says how many connections it has had; closes each after so many answers."""

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
        self.answered = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{self.path} {self.server.connections}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        self.answered += 1
        self.close_connection = self.answered == self.server.answers

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(answers: int) -> Iterator[Answering]:
    with Answering(answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def connections() -> Iterator[Connections]:
    one = Connections()
    yield one
    one.close()


def test_a_connection_is_kept(connections: Connections) -> None:
    with serving(answers=3) as server:
        for _ in range(3):
            assert connections.post(server.address + "/mounted/", "/rows", b"?", {})[:2] == (200, b"/mounted/rows 1")


def test_one_that_the_other_end_closed_is_opened_anew(connections: Connections) -> None:
    with serving(answers=1) as server:
        for number in (1, 2, 3):
            assert connections.post(server.address, "/rows", b"?", {})[:2] == (200, f"/rows {number}".encode())
            assert server.closed.acquire(timeout=60)


def test_where_nobody_answers_that_is_an_error(connections: Connections) -> None:
    with serving(answers=1) as server:
        connections.post(server.address, "/rows", b"?", {})
        assert server.closed.acquire(timeout=60)
    with pytest.raises(ConnectionRefusedError):
        connections.post(server.address, "/rows", b"?", {})


def test_those_to_processes_that_are_gone_are_closed(connections: Connections) -> None:
    with serving(answers=9) as staying, serving(answers=9) as going:
        for server in (staying, going):
            connections.post(server.address, "/rows", b"?", {})
        connections.forget_others({staying.address})
        assert going.closed.acquire(timeout=60)
        assert connections.post(staying.address, "/rows", b"?", {})[:2] == (200, b"/rows 1")
        assert connections.post(going.address, "/rows", b"?", {})[:2] == (200, b"/rows 2")
