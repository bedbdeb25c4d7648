"""Rows of a store on a cluster: from any worker, from the command line, and after their owner has died."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from streamtopo import StreamsBuilder, host
from streamtopo.cli import main
from streamtopo.logs.kafka import KafkaLog
from tests.kafka.brokers import emptied
from tests.kafka.workers.lives import KEYS, Workers, feed, prepare, until, workers

pytestmark = pytest.mark.kafka
COUNTS = sorted((f"key {number}", 4) for number in range(KEYS))
READ = 2 * sum(count for _, count in COUNTS)
"""Records are read twice, from the input and from the repartition topic."""
SOON = "kafka.session.timeout.ms=2000&kafka.heartbeat.interval.ms=300"


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_every_worker_finds_the_rows_of_the_others(
    protocol: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = emptied(kafka)
    prepare(log)
    feed(log, range(4 * KEYS))
    with workers(tmp_path, f"{kafka}?kafka.group.protocol={protocol}&{SOON}") as running:
        first = running.start("--web-port", "0")
        running.start("--web-port", "0")
        until(lambda: len(addresses(log)) == 2 and sum(map(done_at, addresses(log))) == READ, running)
        assert [rows_at(address) for address in addresses(log)] == [COUNTS, COUNTS]
        monkeypatch.chdir(tmp_path)
        assert query(running) == COUNTS
        running.kill(first)
        until(lambda: len(addresses(log)) == 1, running)
        assert query(running) == COUNTS


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_service_is_ready_when_its_rows_can_be_queried(protocol: str, kafka: str, tmp_path: Path) -> None:
    log = emptied(kafka)
    prepare(log)
    builder = StreamsBuilder("ready")
    builder.stream("in", key=str).group_by_key().count(name="counts")
    url = f"{kafka}?kafka.group.protocol={protocol}&{SOON}"
    with host(builder.build(), log=url, state_dir=str(tmp_path / "state")) as app:
        app.ready("60s")
        assert app.query("counts").get("key 1") is None


def addresses(log: KafkaLog) -> list[str]:
    state = log.group("counting")
    return sorted(state.addresses.values()) if state else []


def done_at(address: str) -> int:
    """Return the number of records whose results are in the stores: the log has a commit some milliseconds earlier."""
    return int(httpx.get(f"{address}/tasks", timeout=90).json().get("records", 0))


def rows_at(address: str) -> list[tuple[str, int]]:
    answer = httpx.get(f"{address}/stores/counts?limit=1000&wait=60s", timeout=90)
    return rows(answer.json()["rows"])


def query(running: Workers) -> list[tuple[str, int]]:
    command = ["query", "counting", "counts", "--json", "--wait", "60s", "--log", running.url]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    return rows([json.loads(line) for line in result.stdout.splitlines()])


def rows(found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((row["key"], row["value"]) for row in found)
