"""Workers on a real broker: processes that count, and whose outputs must be exact after any faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamtopo import Topology, Worker
from streamtopo.broker import Cluster
from streamtopo.logs import Log, Topic
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition

ROOT = Path(__file__).parents[3]
PATIENCE = 90.0
PARTITIONS = 4
KEYS = 50
SOON = "?kafka.session.timeout.ms=2000&kafka.heartbeat.interval.ms=300"
"""A member without a heartbeat for two seconds is dead."""
COUNTING = """
from streamtopo import StreamsBuilder
builder = StreamsBuilder("counting")
{prepare}
(
    builder.stream("in", key=str, value=str)
    .map_values(look)
    .group_by(lambda key, value: key)
    .count(name="counts")
    .to_stream()
    .to("out")
)
"""
PLAIN = "look = str"


class Workers:
    """Processes in one folder, each running `streamtopo worker counting`; every update is forwarded."""

    def __init__(self, folder: Path, url: str, prepare: str = PLAIN) -> None:
        self.folder = folder
        self.url = url
        self.running: list[subprocess.Popen[bytes]] = []
        (folder / "counting.py").write_text(COUNTING.format(prepare=prepare))

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "streamtopo",
            "worker",
            "counting",
            "--log",
            self.url,
            "--cache",
            "0",
            *options,
        ]
        with (self.folder / f"worker-{time.time_ns()}.txt").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=output, stderr=output
            )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        self.running.remove(process)
        process.kill()
        process.wait()

    def leave(self, process: subprocess.Popen[bytes]) -> int:
        """Stop the process with SIGTERM, and return its exit code."""
        self.running.remove(process)
        process.terminate()
        return process.wait(PATIENCE)

    def stop(self) -> list[int]:
        """Stop all with SIGTERM, and return their exit codes."""
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        return [process.wait(PATIENCE) for process in self.running]

    def abort(self) -> None:
        """Make each process print its stack, and end."""
        for process in self.running:
            process.send_signal(signal.SIGABRT)
            process.wait(PATIENCE)

    def output(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("worker-*.txt")))


@contextmanager
def workers(folder: Path, url: str, prepare: str = PLAIN) -> Iterator[Workers]:
    started = Workers(folder, url, prepare)
    try:
        yield started
    finally:
        for process in list(started.running):
            started.kill(process)


def prepare(log: Log) -> None:
    for name in ("in", "out"):
        log.create(Topic(name, PARTITIONS))


def feed(log: Log, numbers: range) -> None:
    """Append records; record n has the key n modulo KEYS."""
    columns: dict[int, list[bytes | None]] = {}
    for number in numbers:
        key = b"key %d" % (number % KEYS)
        columns.setdefault(partition_of(key, PARTITIONS), []).append(key)
    for partition, keys in columns.items():
        values: list[bytes | None] = [b"x"] * len(keys)
        log.append(TopicPartition("in", partition), Columns(keys, values, [_now()] * len(keys)))


def _now() -> int:
    """Return the current time: brokers delete records by timestamp and retention."""
    return time.time_ns() // 1_000_000


def inputs(log: Log) -> int:
    return sum(log.end(TopicPartition("in", number)) for number in range(PARTITIONS))


def outputs(log: Log) -> dict[bytes | None, list[int]]:
    """Return the outputs for each key, in order."""
    found: dict[bytes | None, list[int]] = {}
    for number in range(PARTITIONS):
        partition = TopicPartition("out", number)
        batch = log.read(partition, 0, 1 << 30)
        for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
            found.setdefault(key, []).append(int.from_bytes(value or b"", "big"))
    return found


def exact(count: int) -> dict[bytes | None, list[int]]:
    """Return the expected outputs for the first `count` records."""
    wanted: dict[bytes | None, list[int]] = {}
    for number in range(count):
        counted = wanted.setdefault(b"key %d" % (number % KEYS), [])
        counted.append(len(counted) + 1)
    return wanted


def stored(log: Log, state: Path) -> dict[bytes | None, int]:
    """Return the counts of the stores in this directory, after restoring them from their changelogs."""
    described: dict[str, Any] = {}
    exec(COUNTING.format(prepare=PLAIN), described)
    topology: Topology = described["builder"].build()
    worker = Worker(topology, log, state_dir=str(state))
    deadline = time.monotonic() + PATIENCE
    while worker.run_once(0.05) or len(worker.tasks) < 2 * PARTITIONS:  # tasks of both subtopologies
        assert time.monotonic() < deadline, worker.metrics()
    views = [task.states["counts"] for task in worker.tasks.values() if task.states]
    keys = [f"key {number}" for number in range(KEYS)]
    found: dict[bytes | None, int] = {
        key.encode(): row[0] for key in keys for view in views if (row := view.row(key)) is not None
    }
    worker.close()
    return found


def committed(log: Log) -> int:
    """Return the number of processed and committed records of "in"."""
    state = log.groups().get("counting")
    return sum(at.offset for part, at in state.positions.items() if part.topic == "in") if state else 0


def members(log: Log) -> int:
    state = log.groups().get("counting")
    return len(state.members) if state else 0


def total(log: Log) -> int:
    return sum(map(len, outputs(log).values()))


def until(condition: Callable[[], object], running: Workers) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            running.abort()
            raise AssertionError(running.output())
        time.sleep(0.05)


def end_and_start(cluster: Cluster, number: int, running: Workers) -> None:
    """Restart the broker. While its last session lasts, a killed broker is taken for another one of the same name."""
    (broker,) = cluster.nodes()
    broker.signal(number)
    until(lambda: broker.pid is None, running)
    cluster.up(config={"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"})
