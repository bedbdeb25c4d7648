"""Steps that fail now and then, or for some records, in workers that are killed: each record has one end.

STREAMTOPO_LONG=1 runs the long tests: 200,000 records and 40 kills.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder, Topology, retry
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from tests.crash.apps import KEYS, PARTITIONS, counted, everything, new_log, parts, written
from tests.crash.lives import until
from tests.crash.test_kills import await_a_moment, starting
from tests.long import long

LETTERS = "dlq.failing"
PROGRAM = """
import sys
from streamtopo import Worker
from tests.crash.test_failing_steps import failing
log, state_dir = sys.argv[1:]
options = dict(cache=0, memory="1MB", chunk=500, commit_interval="10ms", on_error="dead_letter")
Worker(failing(), log=log, state_dir=state_dir, **options).run()
"""


def failing() -> Topology:
    """Of a hundred numbers, one is broken, one fails in a step, and one in an adder; any may fail for a moment."""
    builder = StreamsBuilder("failing")
    numbers = builder.stream("in", value=int).map_values(now_and_then, on_error=retry(50, backoff="5ms"))
    numbers = numbers.map_values(lambda number: check(number, 7))
    numbers.map_values(lambda number: -number).to("negated")
    grouped = numbers.group_by(lambda _, number: number % KEYS, key=int)
    grouped.aggregate(int, add, value=int).to_stream().to("out")
    return builder.build()


def now_and_then(number: int) -> int:
    if random.random() < 0.0005:
        raise ConnectionError("no answer")
    return number


def add(_: int, number: int, count: int) -> int:
    check(number, 8)
    return count + 1


def check(number: int, wrong: int) -> int:
    if number % 100 == wrong:
        raise ValueError(f"{number} is wrong")
    return number


def value_of(number: int) -> bytes:
    return b"broken" if number % 100 == 9 else number.to_bytes(8)


def feed(log: EmbeddedLog, start: int, stop: int) -> None:
    for part in parts("in"):
        numbers = [number for number in range(start, stop) if number % PARTITIONS == part.partition]
        log.append(part, Columns([None] * len(numbers), list(map(value_of, numbers)), numbers))


@pytest.mark.parametrize("processes", [1, 2])
def test_each_record_has_one_end(tmp_path: Path, processes: int) -> None:
    kill_and_check(tmp_path, processes, records=10_000, kills=4)


@long
@pytest.mark.parametrize("processes", [1, 3])
def test_each_of_many_records_has_one_end(tmp_path: Path, processes: int) -> None:
    kill_and_check(tmp_path, processes, records=200_000, kills=40)


def kill_and_check(path: Path, processes: int, *, records: int, kills: int) -> None:
    seed = int(os.environ.get("STREAMTOPO_SEED", processes))
    print(f"STREAMTOPO_SEED={seed}")  # noqa: T201
    rng, log, fed = random.Random(seed), new_log(path / "log"), 0
    wrong = [number for number in range(records) if number % 100 in (7, 8, 9)]
    with starting(path / "log", path / "state", PROGRAM) as start:
        running = [start() for _ in range(processes)]
        for number in range(kills):
            more = (number + 1) * records // kills
            feed(log, fed, more)
            await_a_moment(rng, log, fed * 9 // 10, more * 9 // 10)
            fed = more
            place = rng.randrange(processes)
            running[place].kill()
            running[place].wait()
            running[place] = start()
        until(lambda: written(log, "out") >= records - len(wrong), "all results")
        until(lambda: LETTERS in log.topics() and written(log, LETTERS) >= len(wrong), "all letters")
        until(lambda: len(log.groups()["failing"].members) == processes, "the start of the last worker")
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait() for process in running] == [0] * processes
    for part in parts("negated"):
        good = [n for n in range(part.partition, records, PARTITIONS) if n % 100 not in (7, 9)]
        assert everything(log, part).timestamps == good
    exact = Counter(number % KEYS for number in range(records) if number % 100 not in (7, 8, 9))
    assert counted(log) == {key: list(range(1, count + 1)) for key, count in exact.items()}
    letters = [everything(log, TopicPartition(LETTERS, number)) for number in range(log.topics()[LETTERS].partitions)]
    found = [one for letter in letters for one in zip(letter.timestamps, letter.values, strict=True)]
    assert sorted(found) == [(number, value_of(number)) for number in wrong]
    log.close()
