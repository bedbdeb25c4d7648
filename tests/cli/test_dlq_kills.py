"""A replay that is killed at random moments goes on when it is started again, and writes each record once."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from streamtopo.logs import Log, Topic
from streamtopo.records import TopicPartition
from tests.cli.conftest import Run, Start
from tests.dead_letters.writing import APP, failure, write_letters

BATCHES, SIZE = 60, 20


@pytest.mark.parametrize("seed", range(2))
def test_each_letter_is_replayed_once(seed: int, start: Start, run: Run, log: Log, folder: Path) -> None:
    """It is killed as soon as it has written some records, also in the middle of its next commit.

    The letters are so large that a commit has a tenth of them.
    """
    (folder / "orders.py").write_text(APP)
    log.create(Topic("amounts", 2))
    for number in range(BATCHES):
        half = number % 2
        rows = [failure(row, partition=half) for row in range(SIZE)]
        write_letters(log, *rows, partition=half, start=number * SIZE, size=20_000)
    chance, kills = random.Random(seed), 0
    while sum(ends := [log.end(TopicPartition("amounts", half)) for half in (0, 1)]) < BATCHES * SIZE:
        wanted = min(sum(ends) + chance.randint(1, 10 * SIZE), BATCHES * SIZE)
        process = start("dlq", "replay", "orders")
        while process.poll() is None and sum(log.end(TopicPartition("amounts", half)) for half in (0, 1)) < wanted:
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.01)
        process.kill()
        kills += process.wait() < 0
    assert kills > 2
    written = Counter(
        key for half in (0, 1) for key in log.read(TopicPartition("amounts", half), 0, 1 << 20).columns.keys
    )
    assert written == Counter(b"k%d" % number for number in range(BATCHES * SIZE))
    assert run("dlq", "replay", "orders").stderr == "dlq.orders: 0 dead letters replayed\n"
