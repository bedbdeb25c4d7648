"""Questions between processes: no member of the group gets to see the token, and none without it is believed."""

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
from streamtopo.hosting.peers import PATH, is_address
from streamtopo.hosting.signing import ANSWER, Signatures
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.web.serving import Server
from tests.hosting.conftest import PARTITIONS, counting, send, until

TOKEN, OTHER = "a-token-of-queries", "another-token"
ADDRESS = "http://10.0.0.5:8000/streamtopo"
QUESTION = orjson.dumps({"store": "counts", "partition": 0, "key": b64encode(b"a").decode()})


def test_a_question_is_for_one_address_path_and_body() -> None:
    header = Signatures(TOKEN).of_question(ADDRESS, PATH, QUESTION)
    assert TOKEN not in header
    assert Signatures(TOKEN).is_of_question(header, ADDRESS, PATH, QUESTION)
    assert not Signatures(OTHER).is_of_question(header, ADDRESS, PATH, QUESTION)
    assert not Signatures(TOKEN).is_of_question(header, "http://10.0.0.6:8000", PATH, QUESTION)
    assert not Signatures(TOKEN).is_of_question(header, ADDRESS, "/tasks", QUESTION)
    assert not Signatures(TOKEN).is_of_question(header, ADDRESS, PATH, QUESTION + b" ")


@pytest.mark.parametrize("later", [-1000, 1000])
def test_a_question_is_for_a_time(later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    header = Signatures(TOKEN).of_question(ADDRESS, PATH, QUESTION)
    at = time.time() + later
    monkeypatch.setattr("streamtopo.hosting.signing.time.time", lambda: at)
    assert not Signatures(TOKEN).is_of_question(header, ADDRESS, PATH, QUESTION)


@pytest.mark.parametrize("part", range(4))
def test_no_part_of_a_signature_can_be_changed(part: int) -> None:
    parts = Signatures(TOKEN).of_question(ADDRESS, PATH, QUESTION).split(" ")
    for changed in (parts[part][:-1], parts[part] + "0", "", "é", "9" * 5000):
        header = " ".join([*parts[:part], changed, *parts[part + 1 :]])
        assert not Signatures(TOKEN).is_of_question(header, ADDRESS, PATH, QUESTION)


def test_an_answer_is_for_one_question() -> None:
    ours = Signatures(TOKEN)
    first, second = (ours.of_question(ADDRESS, PATH, QUESTION) for _ in range(2))
    signature = ours.of_answer(first, b"{}")
    assert ours.is_of_answer(signature, first, b"{}")
    assert not ours.is_of_answer(signature, second, b"{}")
    assert not ours.is_of_answer(signature, first, b"[]")
    assert not ours.is_of_answer("", first, b"{}")
    assert not Signatures(OTHER).is_of_answer(signature, first, b"{}")


@pytest.mark.parametrize(
    "text", ["", "file:///etc/passwd", "http://", "http://h:99999", "http://h:1?x=", "http://h/#", "h"]
)
def test_what_is_no_address_is_not_asked(text: str) -> None:
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
        question = ours.of_question(server.address, PATH, QUESTION)
        answer = asked(question)
        assert (answer.status_code, answer.json()) == (200, {"row": None})
        assert ours.is_of_answer(answer.headers[ANSWER], question, answer.content)
        assert (asked(f"Bearer {TOKEN}").status_code, ANSWER in asked(f"Bearer {TOKEN}").headers) == (200, False)
        for wrong in ("", f"Bearer {OTHER}", Signatures(OTHER).of_question(server.address, PATH, QUESTION)):
            assert asked(wrong).status_code == 401
        signed = Signatures(OTHER).of_question(server.address, PATH, QUESTION)
        for two in (("x", signed), (signed, "x"), (f"Bearer {OTHER}", signed), (f"Bearer {TOKEN}", signed)):
            assert asked(*two).status_code == 401
        for_another = asked(ours.of_question(ADDRESS, PATH, QUESTION))
        assert (for_another.status_code, "the signature is wrong" in for_another.text) == (401, True)
        elsewhere = httpx.get(f"{server.address}/stores", headers={"Authorization": question})
        assert elsewhere.status_code == 401


# -- somebody in the group who is not one of us


class Rogue(ThreadingHTTPServer):
    """Answers every question with the same."""

    def __init__(self, answer: bytes, status: int) -> None:
        got = self.got = []  # type: list[str]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(f"{self.path} {self.headers}")
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header(ANSWER, "0" * 64)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}/any/path"


@contextmanager
def rogue_in(log: EmbeddedLog, answer: bytes, status: int = 200) -> Iterator[Rogue]:
    """It has all partitions of the group."""
    with Rogue(answer, status) as rogue:
        thread = Thread(target=rogue.serve_forever)
        thread.start()
        member = log.join("counting", [("in",)], address=rogue.address)
        until(lambda: len(member.poll(1, 0.01) or member.assignment()) == PARTITIONS)
        yield rogue
        member.leave()
        rogue.shutdown()
        thread.join()


FORGED = orjson.dumps({"row": b64encode(bytes(8) + (9).to_bytes(8, "big")).decode()})


def test_a_member_without_the_token_gets_no_token_and_is_not_believed(
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
    assert all(said.startswith("/any/path/rows ") for said in rogue.got)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b"<html>", b'{"row": 1}', b'{"row": "?"}', b'{"refused": "restoring"}']
)
def test_what_is_no_answer_is_one_error(answer: bytes, url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    with rogue_in(log, answer), host(counting(), url, **options) as app:
        until(lambda: asked_for(app, "a"))
        with pytest.raises(NotOwner, match="what it answers is not rows"):
            app.query("counts").get("a")


@pytest.mark.parametrize("status", [401, 403, 421, 503])
def test_one_that_refuses_us_has_rows_that_cannot_be_had_now(
    status: int, url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    """As an older version does, or one whose clock is wrong: what is asked is not at fault."""
    with rogue_in(log, b"clocks differ", status) as rogue, host(counting(), url, token=TOKEN, **options) as app:
        until(lambda: asked_for(app, "a"))
        with pytest.raises(NotOwner, match=rf"does not answer \(status {status}: clocks differ\)") as raised:
            app.query("counts", wait="50ms").get("a")
    assert raised.value.address == rogue.address


def test_a_name_that_is_none_is_not_an_error_of_its_own(url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    member = log.join("counting", [("in",)], address="http://any..path:80/any/path")
    until(lambda: len(member.poll(1, 0.01) or member.assignment()) == PARTITIONS)
    with host(counting(), url, **options) as app:
        until(lambda: asked_for(app, "a"))
    member.leave()


def asked_for(app: Any, key: str) -> bool:
    """Whether the query went to another process, while the two of them share the partitions."""
    try:
        app.query("counts").get(key)
    except NotOwner as error:
        return "/any/path" in str(error)
    return False
