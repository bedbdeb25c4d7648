"""Workers of their own processes, killed and stopped at random moments: no record in order is late after a repartition.

STREAMTOPO_LONG=1 runs the long test: 200,000 records, and more kills.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import orjson
import pytest

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from tests.crash.lives import PATIENCE
from tests.long import long

PARTITIONS, USERS, STEP, SECOND = 4, 50, 100, 1000
ROOT = Path(__file__).absolute().parents[2]
PROGRAM = """
import sys
from streamtopo import Worker
from tests.crash.test_event_time import per_second
log, state_dir, chunk = sys.argv[1:]
Worker(per_second(), log=log, state_dir=state_dir, cache=0, chunk=int(chunk), max_ahead=None).run()
"""


def per_second() -> Topology:
    """Records of each user in each second; the user is only in the value."""
    builder = StreamsBuilder("per-second")
    users = builder.stream("in", value=int).group_by(lambda _, user: user, key=int)
    counts = users.windowed_by(Windows.tumbling("1s")).count(name="counts").to_stream()
    counts.map(lambda window, count: (window.key, [window.start, count]), key=int, value=list).to("out")
    return builder.build()


def fill(log: EmbeddedLog, start: int, stop: int) -> None:
    """Records in the order of time, in turn in each partition."""
    for partition in range(PARTITIONS):
        numbers = [number for number in range(start, stop) if number % PARTITIONS == partition]
        values: list[bytes | None] = [(number * 7 % USERS).to_bytes(8) for number in numbers]
        columns = Columns([None] * len(numbers), values, [number * STEP for number in numbers])
        log.append(TopicPartition("in", partition), columns)


def truth(records: int) -> Counter[tuple[int, int]]:
    return Counter((number * 7 % USERS, number * STEP // SECOND * SECOND) for number in range(records))


def last_counts(log: EmbeddedLog) -> dict[tuple[int, int], int]:
    found = {}
    for partition in range(PARTITIONS):
        columns = log.read(TopicPartition("out", partition), 0, 1 << 40).columns
        for key, value in zip(columns.keys, columns.values, strict=True):
            start, count = orjson.loads(value or b"")
            found[int.from_bytes(key or b""), start] = count
    return found


@pytest.mark.parametrize(("chunk", "processes"), [(500, 2), (7, 3)])
def test_no_record_is_late(tmp_path: Path, chunk: int, processes: int) -> None:
    kill_and_compare(tmp_path, chunk, processes, records=12_000, faults=4)


@long
@pytest.mark.parametrize("chunk", [10_000, 500, 50])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_no_record_is_late_whatever_happens(tmp_path: Path, chunk: int, processes: int) -> None:
    kill_and_compare(tmp_path, chunk, processes, records=200_000, faults=20)


def kill_and_compare(path: Path, chunk: int, processes: int, *, records: int, faults: int) -> None:
    seed = int(os.environ.get("STREAMTOPO_SEED", chunk))
    rng = random.Random(seed)
    print(f"STREAMTOPO_SEED={seed}")  # noqa: T201
    log = EmbeddedLog(path / "log")
    for topic in ("in", "out"):
        log.create(Topic(topic, PARTITIONS))
    fill(log, 0, records // 2)
    command = [sys.executable, "-c", PROGRAM, f"embedded:{path / 'log'}", str(path / "state"), str(chunk)]
    running = [subprocess.Popen(command, cwd=ROOT) for _ in range(processes)]
    try:
        for number in range(faults):
            time.sleep(rng.uniform(0.2, 1.0))
            place = rng.randrange(processes)
            if number % 2:
                running[place] = replaced(running[place], command)
            else:
                stop_for_a_while(running[place], rng.uniform(0.1, 1.5))
            if number == faults // 2:
                fill(log, records // 2, records)
        deadline = time.monotonic() + PATIENCE
        while sum(last_counts(log).values()) < records and time.monotonic() < deadline:
            time.sleep(0.2)
        assert last_counts(log) == truth(records)
    finally:
        for process in running:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in running:
            process.wait()
        log.close()


def replaced(process: subprocess.Popen[bytes], command: list[str]) -> subprocess.Popen[bytes]:
    process.kill()
    process.wait()
    return subprocess.Popen(command, cwd=ROOT)


def stop_for_a_while(process: subprocess.Popen[bytes], seconds: float) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
