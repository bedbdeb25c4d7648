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
    # Events without a key are in all partitions, as are the changes; of each window the highest count is the last.
    counts: dict[tuple[float, float], int] = {}
    for (key, (start_s, end_s)), count in records(log, changelog):
        assert (key, end_s - start_s) == ("counter", pytest.approx(9.9))
        counts[start_s, end_s] = max(count, counts.get((start_s, end_s), 0))
    per_event = {"tumbling": 1, "hopping": 2}[name]
    assert sum(counts.values()) in (events * per_event, (events - 1) * per_event)
