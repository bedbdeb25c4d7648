"""The example service in a real uvicorn: its routes, its stream, its page in a browser, and its end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.hosting.conftest import until
from tests.web.browser import CHROMIUM, Page
from tests.web.uvicorns import Service


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    one = Service(tmp_path, "--loop", "asyncio")
    yield one
    one.process.kill()
    one.end()


def count_of(client: httpx.Client, word: str) -> Any:
    answer = client.get(f"/words/{word}")
    return answer.json()["count"] if answer.status_code == 200 else answer.status_code


def test_words_are_counted_and_kept_over_a_restart(tmp_path: Path, loop: str) -> None:
    for times in (1, 2):
        service = Service(tmp_path, "--loop", loop)
        try:
            with httpx.Client(base_url=service.url, timeout=60) as client:
                assert client.post("/sentences", json={"sentence": "to be or not to be"}).status_code == 202
                until(lambda: count_of(client, "be") == 2 * times)  # noqa: B023
                assert count_of(client, "nothing") == 404
                assert client.get("/words/Be").json() == {"word": "be", "count": 2 * times}
                assert client.post("/sentences", json={"sentence": 7}).status_code == 422
                text = json.dumps({"sentence": "\ud800"})  # a lone surrogate: JSON has it, UTF-8 does not
                refused = client.post("/sentences", content=text, headers={"Content-Type": "application/json"})
                assert refused.status_code == 422
                assert "valid string" in refused.json()["detail"][0]["msg"]
                assert client.get("/streamtopo/stores/counts/be").json()["value"] == 2 * times
                assert client.get("/streamtopo/health/ready").json() == {"state": "running"}
        finally:
            code = service.end()
        assert "Traceback" not in service.said
        assert code in (0, -signal.SIGTERM), service.said
    log = EmbeddedLog(tmp_path / ".streamtopo")
    assert log.groups()["wordcount"].members == {}
    log.close()


def test_sigterm_in_the_middle_of_work_loses_and_repeats_nothing(tmp_path: Path) -> None:
    sent = 0
    for _ in range(3):
        service = Service(tmp_path)
        with httpx.Client(base_url=service.url, timeout=60) as client:
            for _ in range(50):
                client.post("/sentences", json={"sentence": "again"}).raise_for_status()
                sent += 1
        service.end()
        assert "Traceback" not in service.said, service.said
    service = Service(tmp_path)
    with httpx.Client(base_url=service.url, timeout=60) as client:
        until(lambda: count_of(client, "again") == sent)
    service.end()


def test_changes_are_streamed_and_a_slow_client_does_not_delay_others(service: Service) -> None:
    with httpx.Client(base_url=service.url, timeout=60) as client, client.stream("GET", "/changes") as idle:
        started = idle.iter_lines()
        next(started)
        with httpx.Client(base_url=service.url, timeout=60) as other, other.stream("GET", "/changes") as changes:
            lines = changes.iter_lines()
            next(lines)
            httpx.post(f"{service.url}/sentences", json={"sentence": "one two"}, timeout=60).raise_for_status()
            data = (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
            found = {change["word"]: change["count"] for change in (next(data), next(data))}
            assert found == {"one": 1, "two": 1}


def test_several_processes_of_uvicorn_share_the_work(tmp_path: Path) -> None:
    """Each runs an engine, and also returns rows of the other one, which it finds on the same machine."""
    one, other = Service(tmp_path), Service(tmp_path)
    log = EmbeddedLog(tmp_path / ".streamtopo")
    try:
        until(lambda: all(len(owned) == 4 for owned in log.groups()["wordcount"].members.values()))
        httpx.post(f"{one.url}/sentences", json={"sentence": "a b c d e f g h"}, timeout=60).raise_for_status()
        for word in "abcdefgh":
            for each in (one, other):
                until(lambda: httpx.get(f"{each.url}/words/{word}", timeout=60).json().get("count") == 1)  # noqa: B023
    finally:
        one.end()
        other.end()
        log.close()


def test_processes_behind_one_port_answer_for_each_other(tmp_path: Path) -> None:
    service = Service(tmp_path, "--workers", "2")
    log = EmbeddedLog(tmp_path / ".streamtopo")
    try:
        until(lambda: (group := log.group("wordcount")) and [*map(len, group.members.values())] == [4, 4])
        httpx.post(f"{service.url}/sentences", json={"sentence": "a b c d e f g h"}, timeout=60).raise_for_status()
        for word in "abcdefgh":
            until(lambda: httpx.get(f"{service.url}/words/{word}", timeout=60).json().get("count") == 1)  # noqa: B023
        for _ in range(5):  # each on a connection of its own: whichever process it comes to
            assert {httpx.get(f"{service.url}/words/{word}", timeout=60).status_code for word in "abcdefgh"} == {200}
    finally:
        service.end()
        log.close()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; apt-get install chromium")
def test_the_page_shows_changes_as_they_arrive(service: Service, tmp_path: Path) -> None:
    page = Page(tmp_path / "browser", service.url)
    try:
        until(lambda: page.run("document.body?.dataset.live") == "yes")
        page.run('document.forms[0].sentence.value = "<b>so</b> so so"')
        page.run("document.forms[0].requestSubmit()")
        shown = (
            "Object.fromEntries([...document.querySelectorAll('tr')].map(row => [...row.cells].map(c => c.innerText)))"
        )
        until(lambda: page.run(shown) == {"so": "2", "<b>so</b>": "1"})
        assert page.run("document.querySelectorAll('td b').length") == 0
        assert page.run("document.forms[0].sentence.value") == ""
    finally:
        page.close()
