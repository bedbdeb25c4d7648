"""With a real broker, and workers that are killed: no record is lost, and with exactly-once none is there twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from tests.crash.lives import until
from tests.kafka.brokers import emptied
from tests.kafka.workers.lives import SOON

pytestmark = pytest.mark.kafka

RECORDS, PARTITIONS, KILLS = 20_000, 2, 4
PROGRAM = """
import sys
from streamtopo import Worker
from tests.kafka.faults.test_dead_letters import checked
log, state_dir, guarantee = sys.argv[1:]
Worker(checked(), log=log, state_dir=state_dir, guarantee=guarantee, chunk=200, on_error="dead_letter").run()
"""


def checked() -> Topology:
    """Numbers that pass a check before a repartition topic, and another one after it, in a step with state."""
    builder = StreamsBuilder("checked")
    numbers = builder.stream("in", value=int).map_values(lambda number: check(number, 7))
    grouped = numbers.group_by(lambda _, number: number % 50, key=int)
    last = grouped.aggregate(int, lambda _, number, before: check(number, 8), value=int, name="last")
    last.to_stream().to("out")
    return builder.build()


def check(number: int, wrong: int) -> int:
    if number % 100 == wrong:
        raise ValueError(f"{number} is wrong")
    return number


def fill(log: Log) -> None:
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        values: list[bytes | None] = [b"?" if number % 100 == 9 else number.to_bytes(8) for number in numbers]
        log.append(TopicPartition("in", partition), Columns([None] * len(numbers), values, list(numbers)))


def written(log: Log, topic: str) -> list[tuple[bytes | None, int]]:
    """Value and timestamp of all records."""
    found: list[tuple[bytes | None, int]] = []
    for partition in range(PARTITIONS):
        position = 0
        while (batch := log.read(TopicPartition(topic, partition), position, 100_000)).next_offset > position:
            position = batch.next_offset
            found += zip(batch.columns.values, batch.columns.timestamps, strict=True)
    return found


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_each_record_is_processed_or_a_dead_letter(kafka: str, tmp_path: Path, guarantee: str) -> None:
    log, root = emptied(kafka), Path(__file__).parents[3]
    for topic in ("in", "out"):
        log.create(Topic(topic, PARTITIONS))
    fill(log)
    command = [sys.executable, "-c", PROGRAM, kafka + SOON, str(tmp_path / "state"), guarantee]
    rng = random.Random(int(os.environ.get("STREAMTOPO_SEED", 19)))
    workers = [subprocess.Popen(command, cwd=root) for _ in range(2)]
    try:
        until(lambda: "dlq.checked" in log.topics() and written(log, "out"), "the first result")
        for kill in range(KILLS):
            time.sleep(rng.uniform(0.1, 1.0))
            workers[kill % 2].kill()
            workers[kill % 2].wait()
            workers[kill % 2] = subprocess.Popen(command, cwd=root)
        bad = {7, 8, 9}
        good = [number for number in range(RECORDS) if number % 100 not in bad]
        until(lambda: len(set(written(log, "dlq.checked"))) >= RECORDS - len(good), "the last dead letter")
        until(lambda: len({time for _, time in written(log, "out")}) >= 50, "the last result")
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
    letters = written(log, "dlq.checked")
    times = Counter(time for _, time in letters)
    assert times.keys() == {number for number in range(RECORDS) if number % 100 in bad}
    assert {value for value, time in letters if time % 100 == 9} == {b"?"}
    results = Counter(value for value, _ in written(log, "out"))
    assert results.keys() <= {number.to_bytes(8) for number in good}
    if guarantee == "exactly-once":
        assert {*times.values(), *results.values()} == {1}
    log.close()
