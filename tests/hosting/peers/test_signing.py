"""Questions between processes: no member of the group receives the token, and none without it is trusted."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import orjson
import pytest

from streamtopo import host
from streamtopo.hosting.answers import NotOwner
from streamtopo.hosting.peers.peers import is_address
from streamtopo.hosting.peers.protocol import PATH
from streamtopo.hosting.peers.signing import ANSWER_HEADER, Signatures
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.web.serving import Server
from tests.hosting.conftest import PARTITIONS, counting, send, until

TOKEN, OTHER = "a-token-of-queries", "another-token"
ADDRESS = "http://10.0.0.5:8000/streamtopo"
QUESTION = orjson.dumps({"store": "counts", "partition": 0, "key": b64encode(b"a").decode()})


def test_a_signature_is_for_one_address_path_and_body() -> None:
    header = Signatures(TOKEN).sign_question(ADDRESS, PATH, QUESTION)
    assert TOKEN not in header
    assert Signatures(TOKEN).verify_question(header, ADDRESS, PATH, QUESTION)
    assert not Signatures(OTHER).verify_question(header, ADDRESS, PATH, QUESTION)
    assert not Signatures(TOKEN).verify_question(header, "http://10.0.0.6:8000", PATH, QUESTION)
    assert not Signatures(TOKEN).verify_question(header, ADDRESS, "/tasks", QUESTION)
    assert not Signatures(TOKEN).verify_question(header, ADDRESS, PATH, QUESTION + b" ")


@pytest.mark.parametrize("later", [-1000, 1000])
def test_a_signature_is_valid_for_some_time(later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    header = Signatures(TOKEN).sign_question(ADDRESS, PATH, QUESTION)
    at = time.time() + later
    monkeypatch.setattr("streamtopo.hosting.peers.signing.time.time", lambda: at)
    assert not Signatures(TOKEN).verify_question(header, ADDRESS, PATH, QUESTION)


@pytest.mark.parametrize("part", range(4))
def test_no_part_of_a_signature_can_be_changed(part: int) -> None:
    parts = Signatures(TOKEN).sign_question(ADDRESS, PATH, QUESTION).split(" ")
    for changed in (parts[part][:-1], parts[part] + "0", "", "é", "9" * 5000):
        header = " ".join([*parts[:part], changed, *parts[part + 1 :]])
        assert not Signatures(TOKEN).verify_question(header, ADDRESS, PATH, QUESTION)


def test_the_signature_of_an_answer_is_for_one_question() -> None:
    ours = Signatures(TOKEN)
    first, second = (ours.sign_question(ADDRESS, PATH, QUESTION) for _ in range(2))
    signature = ours.sign_answer(first, b"{}")
    assert ours.verify_answer(signature, first, b"{}")
    assert not ours.verify_answer(signature, second, b"{}")
    assert not ours.verify_answer(signature, first, b"[]")
    assert not ours.verify_answer("", first, b"{}")
    assert not Signatures(OTHER).verify_answer(signature, first, b"{}")


@pytest.mark.parametrize(
    "text", ["", "file:///etc/passwd", "http://", "http://h:99999", "http://h:1?x=", "http://h/#", "h"]
)
def test_a_wrong_address_is_not_asked(text: str) -> None:
    assert not is_address(text.replace("#", "#x").replace("x=", "x=1"))
    assert is_address(ADDRESS)
    assert is_address("https://[::1]:8000")


def test_a_server_answers_signed_questions_and_those_with_the_token(
    url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    with Server(0, token=TOKEN) as server, host(counting(), url, token=TOKEN, address=server.address, **options) as app:
        app.ready("60s")
        server.serve(app)

        def asked(*authorizations: str) -> httpx.Response:
            headers = [("Content-Type", "application/json"), *(("Authorization", one) for one in authorizations)]
            return httpx.post(server.address + PATH, content=QUESTION, headers=headers)

        ours = Signatures(TOKEN)
        question = ours.sign_question(server.address, PATH, QUESTION)
        answer = asked(question)
        assert (answer.status_code, answer.json()) == (200, {"row": None})
        assert ours.verify_answer(answer.headers[ANSWER_HEADER], question, answer.content)
        assert (asked(f"Bearer {TOKEN}").status_code, ANSWER_HEADER in asked(f"Bearer {TOKEN}").headers) == (200, False)
        for wrong in ("", f"Bearer {OTHER}", Signatures(OTHER).sign_question(server.address, PATH, QUESTION)):
            assert asked(wrong).status_code == 401
        signed = Signatures(OTHER).sign_question(server.address, PATH, QUESTION)
        for two in (("x", signed), (signed, "x"), (f"Bearer {OTHER}", signed), (f"Bearer {TOKEN}", signed)):
            assert asked(*two).status_code == 401
        for_another = asked(ours.sign_question(ADDRESS, PATH, QUESTION))
        assert (for_another.status_code, "invalid signature" in for_another.text) == (401, True)
        elsewhere = httpx.get(f"{server.address}/stores", headers={"Authorization": question})
        assert elsewhere.status_code == 401


# -- somebody in the group who is not one of us


class Rogue(ThreadingHTTPServer):
    """Answers all questions with the same response."""

    def __init__(self, answer: bytes, status: int) -> None:
        got = self.got = []  # type: list[str]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(f"{self.path} {self.headers}")
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header(ANSWER_HEADER, "0" * 64)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}/any/path"


@contextmanager
def rogue_in(log: EmbeddedLog, answer: bytes, status: int = 200) -> Iterator[Rogue]:
    """A member that has all partitions of the group."""
    with Rogue(answer, status) as rogue:
        thread = Thread(target=rogue.serve_forever, daemon=True)
        thread.start()
        member = log.join("counting", [("in",)], address=rogue.address)
        until(lambda: len(member.poll(1, 0.01) or member.assignment()) == PARTITIONS)
        yield rogue
        member.leave()
        rogue.shutdown()
        thread.join()


FORGED = orjson.dumps({"row": b64encode(bytes(8) + (9).to_bytes(8, "big")).decode()})


def test_a_member_without_the_token_does_not_get_it_and_is_not_trusted(
    url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    send(log, "a")
    with rogue_in(log, FORGED) as rogue, host(counting(), url, token=TOKEN, **options) as app:
        until(lambda: asked_for(app, "a"))
        with pytest.raises(
            NotOwner, match="does not know the token of this group, so its answer is not used"
        ) as raised:
            app.query("counts").get("a")
    assert raised.value.address is None
    assert rogue.got
    assert TOKEN not in "".join(rogue.got)
    assert all(request.startswith("/any/path/rows ") for request in rogue.got)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b"<html>", b'{"row": 1}', b'{"row": "?"}', b'{"refused": "restoring"}']
)
def test_an_invalid_response_is_one_error(answer: bytes, url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    with rogue_in(log, answer), host(counting(), url, **options) as app:
        until(lambda: asked_for(app, "a"))
        with pytest.raises(NotOwner, match="its answer cannot be read"):
            app.query("counts").get("a")


@pytest.mark.parametrize("status", [401, 403, 421, 503])
def test_rows_of_a_process_that_refuses_are_not_available_now(
    status: int, url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    """Like an older version, or one whose clock is wrong: the query itself is valid."""
    with rogue_in(log, b"clocks differ", status) as rogue, host(counting(), url, token=TOKEN, **options) as app:
        until(lambda: asked_for(app, "a"))
        with pytest.raises(NotOwner, match=rf"does not answer \(status {status}: clocks differ\)") as raised:
            app.query("counts", wait="50ms").get("a")
    assert raised.value.address == rogue.address


def test_an_invalid_host_name_is_a_typed_answer(url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    member = log.join("counting", [("in",)], address="http://any..path:80/any/path")
    until(lambda: len(member.poll(1, 0.01) or member.assignment()) == PARTITIONS)
    with host(counting(), url, **options) as app:
        until(lambda: asked_for(app, "a"))
    member.leave()


def asked_for(app: Any, key: str) -> bool:
    """Return whether the query went to another process, while two processes share the partitions."""
    try:
        app.query("counts").get(key)
    except NotOwner as error:
        return "/any/path" in str(error)
    return False
