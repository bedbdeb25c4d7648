"""streamtopo dlq on a real broker: letters are listed, shown, replayed once although a replay is killed, and purged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamtopo.cli import main
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.records import TopicPartition
from tests.dead_letters.writing import APP, LETTERS, failure, write_letters
from tests.kafka.brokers import emptied

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
AMOUNTS = TopicPartition("amounts", 0)


@pytest.fixture
def log(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaLog:
    """With the topic that the letters come from."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.py").write_text(APP)
    log = emptied(kafka)
    log.create(Topic("amounts", 1))
    return log


def run(kafka: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["dlq", *arguments, "--log", kafka])


def test_letters_from_list_to_purge(kafka: str, log: KafkaLog) -> None:
    write_letters(log, failure(10), failure(11, node="look-up"), failure(12, own=(("trace", b"1"),)))
    assert json.loads(run(kafka, "list", "orders", "--json").stdout)["letters"] == 3
    assert "ValueError: bad amount 12" in run(kafka, "show", "orders", "amounts/0/12").stdout
    assert run(kafka, "replay", "orders", "--node", "to-cents").stdout == "amounts\t2\n"
    assert run(kafka, "replay", "orders", "--node", "to-cents").stdout == ""
    columns = log.read(AMOUNTS, 0, 10).columns
    assert (columns.keys, columns.headers) == ([b"k0", b"k2"], [(), (("trace", b"1"),)])
    assert columns.timestamps == [1_700_000_000_000, 1_700_000_002_000]
    assert run(kafka, "purge", "orders", "--key", "k1", "--force").exit_code == 0
    listed = json.loads(run(kafka, "list", "orders", "--replayed", "--json").stdout)
    assert [letter["key"] for letter in listed["newest"]] == ["k2", "k0"]
    assert run(kafka, "purge", "orders", "--force").exit_code == 0
    assert log.start(TopicPartition(LETTERS, 0)) == 3
    log.close()


def test_a_replay_that_is_killed_goes_on(kafka: str, log: KafkaLog) -> None:
    """It is killed when its first records are visible: perhaps in the middle of the next transaction."""
    for number in range(10):
        rows = [failure(row, STACKTRACE="x" * 10_000) for row in range(2_000)]
        write_letters(log, *rows, start=2_000 * number)
    command = [sys.executable, "-m", "streamtopo", "dlq", "replay", "orders", "--log", kafka]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})
    while log.stable_end(AMOUNTS) == 0:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    assert process.wait() < 0
    assert log.stable_end(AMOUNTS) < 20_000
    assert run(kafka, "replay", "orders").exit_code == 0
    written: Counter[bytes | None] = Counter()
    position = 0
    while keys := (batch := log.read(AMOUNTS, position, 100_000)).columns.keys:
        written.update(keys)
        position = batch.next_offset
    assert written == Counter(b"k%d" % number for number in range(20_000))
    log.close()


def test_a_purge_that_is_killed_deletes_nothing_else_and_can_be_repeated(kafka: str, log: KafkaLog) -> None:
    """It is killed when the topic exists where it remembers letters: perhaps before it has written to it."""
    for number in range(10):
        rows = [failure(row, node="to-cents" if row < 500 or row % 2 else "look-up") for row in range(1_000)]
        write_letters(log, *rows, start=1_000 * number, partition=number % 2)
    command = [sys.executable, "-m", "streamtopo", "dlq", "purge", "orders", "--node", "to-cents", "--force"]
    process = subprocess.Popen([*command, "--log", kafka], env=os.environ | {"PYTHONPATH": str(ROOT)})
    while f"{LETTERS}.done" not in log.topics():
        assert process.poll() is None
    process.kill()
    process.wait()
    assert letters(kafka).get("look-up") == 2_500
    assert run(kafka, "purge", "orders", "--node", "to-cents", "--force").exit_code == 0
    assert letters(kafka) == {"look-up": 2_500}
    assert log.start(TopicPartition(LETTERS, 0)) == 500
    log.close()


def letters(kafka: str) -> dict[str, int]:
    counts = json.loads(run(kafka, "list", "orders", "--json").stdout)["counts"]
    return {count["node"]: count["letters"] for count in counts}
