"""Records of each user in each second, counted after a repartition by processes that are killed and stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from tests.crash.lives import PATIENCE, until

PARTITIONS, USERS, STEP, SECOND = 4, 50, 100, 1000
ROOT = Path(__file__).absolute().parents[2]
PROGRAM = """
import sys
from streamtopo import Worker
from tests.crash.seconds import per_second
log, state_dir, chunk, guarantee = sys.argv[1:]
options = {"cache": 0, "max_ahead": None, "origin_idle": "3s"}  # on a busy machine `fill` may take more than 500 ms
Worker(per_second(), log=log, state_dir=state_dir, chunk=int(chunk), guarantee=guarantee, **options).run()
"""

Counts = dict[tuple[int, int], int]
"""By user and start of the window."""


def per_second() -> Topology:
    """The user is only in the value."""
    builder = StreamsBuilder("per-second")
    users = builder.stream("in", value=int).group_by(lambda _, user: user, key=int)
    counts = users.windowed_by(Windows.tumbling("1s")).count(name="counts").to_stream()
    counts.map(lambda window, count: (window.key, [window.start, count]), key=int, value=list).to("out")
    return builder.build()


def create_topics(log: Log) -> None:
    for topic in ("in", "out"):
        log.create(Topic(topic, PARTITIONS))


def fill(log: Log, start: int, stop: int) -> None:
    """Records in the order of time, in turn in each partition."""
    for partition in range(PARTITIONS):
        numbers = [number for number in range(start, stop) if number % PARTITIONS == partition]
        values: list[bytes | None] = [(number * 7 % USERS).to_bytes(8) for number in numbers]
        columns = Columns([None] * len(numbers), values, [number * STEP for number in numbers])
        log.append(TopicPartition("in", partition), columns)


def truth(records: int) -> Counts:
    return Counter((number * 7 % USERS, number * STEP // SECOND * SECOND) for number in range(records))


class LastCounts:
    """Of each window, read from the log as they come."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = [0] * PARTITIONS
        self._found: Counts = {}

    def read(self) -> Counts:
        for partition, offset in enumerate(self._next):
            batch = self._log.read(TopicPartition("out", partition), offset, 1 << 30)
            self._next[partition] = batch.next_offset
            for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
                start, count = orjson.loads(value or b"")
                self._found[int.from_bytes(key or b""), start] = count
        return self._found


class Faults(NamedTuple):
    """In turn, a worker is stopped for a while, or killed and replaced."""

    number: int
    longest_stop: float
    """Seconds."""


class Workers:
    def __init__(self, url: str, state: Path, *, chunk: int, processes: int, guarantee: str = "exactly-once") -> None:
        self._command = [sys.executable, "-c", PROGRAM, url, str(state), str(chunk), guarantee]
        self._running = [self._start() for _ in range(processes)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, cwd=ROOT)

    def replace(self, place: int) -> None:
        self._running[place].kill()
        self._running[place].wait()
        self._running[place] = self._start()

    def stop_for_a_while(self, place: int, seconds: float) -> None:
        self._running[place].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._running[place].send_signal(signal.SIGCONT)

    def check(self) -> None:
        assert [process.poll() for process in self._running] == [None] * len(self._running), "a worker has ended"

    def end(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._running:
            process.wait()

    def __len__(self) -> int:
        return len(self._running)


@contextmanager
def ended(workers: Workers) -> Iterator[Workers]:
    try:
        yield workers
    finally:
        workers.end()


def counts_after(log: Log, workers: Workers, *, seed: int, records: int, faults: Faults) -> Counts:
    """What was counted at the end: half of the records are there before the first fault, the others come in between."""
    seed = int(os.environ.get("STREAMTOPO_SEED", seed))
    rng = random.Random(seed)
    print(f"STREAMTOPO_SEED={seed}")  # noqa: T201
    counts = LastCounts(log)
    with ended(workers):
        until(counts.read, "the first result")
        for number in range(faults.number):
            fill(log, *(records // 2 + records // 2 * one // faults.number for one in (number, number + 1)))
            time.sleep(rng.uniform(0.05, 1.0))
            place = rng.randrange(len(workers))
            if number % 2:
                workers.replace(place)
            else:
                workers.stop_for_a_while(place, rng.uniform(0.1, faults.longest_stop))
        deadline = time.monotonic() + PATIENCE
        windows = len(truth(records))
        while len(counts.read()) < windows and time.monotonic() < deadline:
            workers.check()
            time.sleep(0.2)
        return counts.read()
