"""apps.sensors from the command line, as a user would try it: invalid readings, a worker, results."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamtopo.cli import main
from streamtopo.logs.embedded import EmbeddedLog
from tests.cli.workers import ROOT, Running, until

APP = "apps.sensors"
START = 4_102_444_800_000
"""In the year 2100: after the devices, whose records have the time of the log."""


def streamtopo(*arguments: str, given: str = "") -> str:
    result = CliRunner().invoke(main, arguments, input=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def reading(seconds: int, celsius: float | None) -> str:
    return "s1:" + json.dumps({"sensor": "s1", "celsius": celsius, "at": START + seconds * 1000})


READINGS = [reading(0, 20), "s1:{broken", 's1:{"sensor": "s1", "celsius": 20}', reading(30, 30), reading(35, None)]
READINGS += ["s2" + reading(40, 50)[2:], reading(180, 30), reading(-60, 99)]


def lag(folder: Path) -> int:
    """Return how many readings have not been processed."""
    with closing(EmbeddedLog(folder / ".streamtopo")) as log:
        state = log.groups().get("sensors")
        read = {part.topic: position.offset for part, position in state.positions.items()} if state else {}
    return len(READINGS) - read.get("readings", 0)


def consumed(topic: str) -> list[Any]:
    lines = streamtopo("consume", topic, "--app", APP).splitlines()
    assert {line.partition("\t")[0] for line in lines} <= {"s1"}
    return [json.loads(line.partition("\t")[2]) for line in lines]


def test_sensors_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    for topic in ("devices", "readings"):
        streamtopo("topics", "create", topic, "--partitions", "1")
    device = 's1:{"site": "hill", "limit": 24.0}\n'
    streamtopo("produce", "devices", "--key-separator", ":", given=device)
    streamtopo("produce", "readings", "--key-separator", ":", given="\n".join(READINGS))
    running = Running(
        tmp_path, APP, "--on-error", "skip", "--create-topics", "1", "--cache", "0", "--max-ahead", "none"
    )
    try:
        until(lambda: lag(tmp_path) == 0)
        running.interrupt()
        assert running.end() == (0, "")
    finally:
        running.kill()
    assert "failed on readings/0 offset 1: not JSON" in running.said
    assert 'failed on readings/0 offset 2: the timestamp is in field "at", which' in running.said
    assert running.said.count("skipped: ") == 2

    averages = [((row["start"] - START) // 1000, row["celsius"]) for row in consumed("sensor-averages")]
    assert averages == [(-40, 20), (-20, 20), (0, 20), (-20, 25), (0, 25), (20, 30), (140, 30), (160, 30), (180, 30)]
    assert consumed("sensor-sessions") == [{"start": START, "end": START + 30_000, "readings": 2}]
    alerts = [((row["at"] - START) // 1000, row["celsius"]) for row in consumed("sensor-alerts")]
    assert alerts == [(30, 30), (-60, 99)]
    assert [row["celsius"] for row in consumed("sensor-late")] == [99]
    assert [row["celsius"] for row in consumed("sensor-broken")] == [None]
