"""Workers in processes of their own, with or without a terminal, that receive signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
COUNTING = """
from streamtopo import StreamsBuilder
builder = StreamsBuilder("counting")
def look(value):
    {look}
    return value
stream = builder.stream("in", key=str, value=str).map_values(look)
stream.group_by_key().count(name="counts").to_stream().to("out")
"""


class Running:
    """`streamtopo worker …` in a directory, in a process group of its own, with its output."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streamtopo", "worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        assert self.process.stdout
        assert self.process.stderr
        self._readers = [
            _collect(self.process.stdout, self.out),
            _collect(self.process.stderr, self.err),
        ]

    @property
    def said(self) -> str:
        return "".join(self.out)

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.said or self.process.poll() is not None)
        assert text in self.said, self.said + "".join(self.err)

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def interrupt(self) -> None:
        """Press Ctrl-C: every process of the group gets the signal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Return its exit code and its standard error."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code, "".join(self.err)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.end()


def _collect(stream: IO[str], lines: list[str]) -> threading.Thread:
    def read() -> None:
        with stream:
            for line in stream:
                lines.append(line)  # noqa: PERF402 - each line at once

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def application(folder: Path, look: str = "pass") -> str:
    """Write an application that counts by key; `look` is its code for each value. Return its name."""
    (folder / "counting.py").write_text(COUNTING.format(look=look))
    return "counting"


def log_of(folder: Path, partitions: int = 2) -> EmbeddedLog:
    log = EmbeddedLog(folder / ".streamtopo")
    for name in ("in", "out"):
        log.create(Topic(name, partitions))
    return log


def send(log: EmbeddedLog, keys: Iterable[str]) -> None:
    partitions = log.topics()["in"].partitions
    sent: dict[int, list[bytes | None]] = {}
    for key in keys:
        sent.setdefault(partition_of(key.encode(), partitions), []).append(key.encode())
    for partition, column in sent.items():
        values: list[bytes | None] = [b"x"] * len(column)
        log.append(TopicPartition("in", partition), Columns(column, values, [0] * len(column), None))


def outputs(log: EmbeddedLog) -> dict[str, list[int]]:
    """Return the outputs for each key, in order."""
    found: dict[str, list[int]] = {}
    for partition in range(log.topics()["out"].partitions):
        batch = log.read(TopicPartition("out", partition), 0, 1 << 60)
        for key, value in zip(batch.columns.keys, batch.columns.values, strict=True):
            found.setdefault((key or b"").decode(), []).append(int.from_bytes(value or b"", "big"))
    return found


def committed(log: EmbeddedLog) -> int:
    """How many records of "in" come after the group's positions."""
    state = log.groups().get("counting")
    return sum(position.offset for position in state.positions.values()) if state else 0


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
