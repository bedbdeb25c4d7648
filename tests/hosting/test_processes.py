"""An engine in processes: queried over HTTP, replaced when one dies, and ended with the service."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from streamtopo import host
from streamtopo.errors import ConfigError
from streamtopo.hosting.answers import Found, NotOwner, Restoring
from streamtopo.hosting.app import HostError
from streamtopo.hosting.engines.lifecycle import AppState
from streamtopo.logs.embedded import EmbeddedLog
from tests.cli.workers import COUNTING, alive, application
from tests.hosting.conftest import PATIENCE, counting, send, until

WORDS = [f"word {number}" for number in range(10)]


def children() -> list[int]:
    found = [task.read_text().split() for task in Path("/proc/self/task").glob("*/children")]
    return [int(child) for one in found for child in one]


def worker(process: int) -> bool:
    """Not the tracker of resources, which Python starts with the first and keeps."""
    return b"resource_tracker" not in Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("STREAMTOPO_WEB_TOKEN", "of somebody else")
    return application(tmp_path)


def test_processes_do_the_work_and_answer(app: str, url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    send(log, *WORDS)
    others = children()
    with host(app, url, engine="process", processes=2, token="secret", **options) as hosted:
        hosted.ready(PATIENCE)
        counts = hosted.query("counts", wait=PATIENCE)
        until(lambda: list(counts.all()) == [(word, 1) for word in WORDS])
        first = next(child for child in children() if child not in others and worker(child))
        os.kill(first, signal.SIGKILL)
        assert [counts.get(word) for word in WORDS] == [1] * len(WORDS)
        hosted.produce("in", "x", key=WORDS[0]).result(60)
        until(lambda: counts.get(WORDS[0]) == 2)
        at_work = [child for child in children() if child not in others and worker(child)]
    assert hosted.state is AppState.NOT_RUNNING
    assert not any(map(alive, at_work))


def test_processes_listen_at_the_host_that_they_announce(
    app: str, url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    with host(app, url, engine="process", address="http://127.0.0.2", token="secret", **options) as hosted:
        hosted.ready(PATIENCE)
        state = log.group("counting")
        assert state is not None
        assert [address.rpartition(":")[0] for address in state.addresses.values()] == ["http://127.0.0.2"]
        assert hosted.query("counts", wait=PATIENCE).get("word") is None


def test_a_dead_owner_is_a_typed_answer_until_there_is_a_new_one(
    app: str, url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    send(log, *WORDS)
    others = children()
    with host(app, url, engine="process", **options) as hosted:
        hosted.ready(PATIENCE)
        counts = hosted.query("counts")
        until(lambda: counts.ask(WORDS[0]) == Found(1, 1000))
        (owner,) = (child for child in children() if child not in others and worker(child))
        os.kill(owner, signal.SIGKILL)
        answers = [counts.ask(WORDS[0])]
        while not isinstance(answers[-1], Found):
            answers.append(counts.ask(WORDS[0]))
        assert isinstance(answers[0], NotOwner)
        assert {type(answer) for answer in answers} <= {NotOwner, Restoring, Found}
        assert answers[-1] == Found(1, 1000)


def test_processes_are_added_and_removed(app: str, url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    with host(app, url, engine="process", **options) as hosted:
        counts = hosted.query("counts", wait=PATIENCE)
        for round, processes in enumerate([2, 1], 1):
            hosted.scale(processes)
            send(log, *WORDS)
            hosted.ready(PATIENCE)
            until(lambda: len(log.groups()["counting"].members) == processes)  # noqa: B023
            until(lambda: list(counts.all()) == [(word, round) for word in WORDS])  # noqa: B023
        assert hosted.workers == 1
        until(lambda: (metrics := hosted.metrics()) and metrics.records == 2 * len(WORDS))


def test_processes_are_paused(app: str, url: str, log: EmbeddedLog, options: dict[str, Any], tmp_path: Path) -> None:
    """Also one that is added in the meantime. Another app with the same input shows what they could have done."""
    others = host(counting(name="other"), url, state_dir=str(tmp_path / "other"))
    with host(app, url, engine="process", **options) as hosted, others as other:
        hosted.ready(PATIENCE)
        hosted.pause()
        hosted.scale(2)
        hosted.ready(PATIENCE)
        until(lambda: (metrics := hosted.metrics()) and metrics.paused)
        send(log, *WORDS)
        until(lambda: other.query("counts", wait=PATIENCE).count() == len(WORDS))
        counts = hosted.query("counts", wait=PATIENCE)
        assert (hosted.paused, list(counts.all())) == (True, [])
        hosted.resume()
        until(lambda: counts.count() == len(WORDS))


async def test_a_loop_hosts_processes(app: str, url: str, log: EmbeddedLog, options: dict[str, Any]) -> None:
    async with host(app, url, engine="process", **options) as hosted:
        await hosted.ready(PATIENCE)
        changes = hosted.consume("out")
        await hosted.produce("in", "x", key="a")
        assert (await anext(changes)).value == 1
        assert await hosted.query_async("counts", wait=PATIENCE).get("b") is None


def test_a_process_that_fails_ends_the_engine_with_its_message(
    tmp_path: Path, app: str, url: str, log: EmbeddedLog, options: dict[str, Any]
) -> None:
    (tmp_path / "counting_badly.py").write_text(COUNTING.format(look="1 / 0"))
    send(log, "a")
    with host("counting_badly", url, engine="process", **options) as hosted:
        assert list(hosted.consume("out")) == []  # until the engine is gone
        assert hosted.state is AppState.ERROR
        with pytest.raises(HostError, match="ZeroDivisionError"):
            hosted.ready(PATIENCE)


def test_processes_need_names(url: str) -> None:
    with pytest.raises(ConfigError, match="needs names that its processes can use"):
        host(counting(), url, engine="process")
    with pytest.raises(ConfigError, match='engine is "rocket"; give "thread" or "process"'):
        host(counting(), url, engine="rocket")
