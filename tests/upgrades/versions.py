"""Versions of a program, one after the other, on one embedded log and one state directory."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.logs import Log, Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition

Row = tuple[str, str, int]
"""Key, value and time."""
HOUR = 3_600_000
PATIENCE = 30.0


class Home:
    """The log and state on which the versions of an application run."""

    def __init__(self, path: Path, topics: Iterable[str] = ("in", "out"), log: Log | None = None) -> None:
        self.path = path
        self.log: Log = log or EmbeddedLog(path / "log")
        for topic in topics:
            self.log.create(Topic(topic, 1))

    def put(self, topic: str, *rows: Row) -> None:
        keys: list[bytes | None] = [key.encode() for key, _, _ in rows]
        values: list[bytes | None] = [value.encode() for _, value, _ in rows]
        self.log.append(TopicPartition(topic, 0), Columns(keys, values, [time for _, _, time in rows]))

    def start(self, topology: Topology, **options: Any) -> Worker:
        return Worker(topology, self.log, state_dir=str(self.path / "state"), **options)

    def run(self, topology: Topology, *, wiped: bool = False, **options: Any) -> list[Any]:
        """Process all records, and return what was written to "out"."""
        before = self.log.end(TopicPartition("out", 0))
        if wiped:
            shutil.rmtree(self.path / "state", ignore_errors=True)
        worker = self.start(topology, **options)
        catch_up(worker)
        worker.close()
        return self.written(before)

    def written(self, start: int = 0, topic: str = "out") -> list[Any]:
        columns = self.log.read(TopicPartition(topic, 0), start, 1 << 20).columns
        return [(_text(key), _text(value)) for key, value in zip(columns.keys, columns.values, strict=True)]

    def copy(self, path: Path) -> Home:
        """Copy the log and the rows on disk; no worker may be running."""
        self.log.close()
        shutil.copytree(self.path, path)
        self.log = EmbeddedLog(self.path / "log")
        return Home(path, ())


def catch_up(worker: Worker) -> None:
    deadline = time.monotonic() + PATIENCE
    while (
        worker.run_once(0.001) or worker._pace.undurable or not worker.tasks or worker.opening or worker.metrics().lag
    ):
        assert time.monotonic() < deadline, worker.metrics()


def built(describe: Callable[[StreamsBuilder], object], application: str = "up") -> Topology:
    builder = StreamsBuilder(application)
    describe(builder)
    return builder.build()


def shown(table: Any) -> None:
    """Write a table's updates as text; keys of windows with their start and end."""
    stream = table.to_stream(lambda key, _: "-".join(map(str, key)) if isinstance(key, tuple) else str(key), key=str)
    stream.map_values(str, value=str).to("out")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
