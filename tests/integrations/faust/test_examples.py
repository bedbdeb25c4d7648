"""Faust's own examples run on the embedded log, as they are but for the broker's URL."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from tests.cli.workers import until
from tests.integrations.faust.workers import FaustWorker, feed, free_port, records, table, write_app

EXAMPLES = Path(__file__).parent / "examples"
Start = Callable[..., FaustWorker]


def example(folder: Path, name: str) -> str:
    return write_app(folder, f"example_{name}", (EXAMPLES / f"{name}.py").read_text())


def test_word_count(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    counted = dict.fromkeys(["the", "quick", "brown", "fox"], 1000)
    port = free_port()
    worker = start(example(tmp_path, "word_count"), port)
    until(lambda: table(log, "word-counts-word_counts-changelog") == counted)
    with urllib.request.urlopen(f"http://localhost:{port}/count/fox/") as answer:
        assert json.load(answer) == {"fox": 1000}
    assert worker.stop() == 0
    assert table(log, "word-counts-word_counts-changelog") == counted


def test_a_table(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    log.create(Topic("countstopic", 4))
    feed(log, "countstopic", ((str(key), value) for value in range(500) for key in range(4)))
    worker = start(example(tmp_path, "tabletest"))
    until(lambda: table(log, "tabletest-counts-changelog") == {str(key): sum(range(500)) for key in range(4)})
    assert worker.stop() == 0
    assert "!!!" not in worker.said


@pytest.mark.parametrize("name", ["tumbling", "hopping"])
def test_a_windowed_table(tmp_path: Path, log: EmbeddedLog, start: Start, name: str) -> None:
    worker = start(example(tmp_path, name))
    changelog = f"windowing-{name}_table-changelog"
    until(lambda: len(list(records(log, f"{name}_topic"))) >= 3 and len(list(records(log, changelog))) >= 3)
    assert worker.stop() == 0
    events = len(list(records(log, f"{name}_topic")))
    windows = {key[1][0]: (key[0], key[1], value) for key, value in records(log, changelog)}
    assert all(key == "counter" and end - start == pytest.approx(9.9) for key, (start, end), _ in windows.values())
    per_event = {"tumbling": 1, "hopping": 2}[name]
    assert sum(value for *_, value in windows.values()) in (events * per_event, (events - 1) * per_event)
