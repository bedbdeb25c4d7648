"""Faust workers as their users start them: `faust -A app worker` in a process of its own, on an embedded log."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.cli.workers import PATIENCE, ROOT, until

Row = tuple[Any, Any]


class FaustWorker:
    """The app is a module in the folder; `broker` in its text has been replaced by the log there."""

    def __init__(self, folder: Path, app: str, port: int = 0) -> None:
        self._said = folder / f"{app}-{id(self)}.txt"
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [*faust(app), "worker", "-l", "info", *(["--web-port", str(port)] if port else ["--without-web"])],
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=ENVIRONMENT,
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.said or self.process.poll() is not None)
        assert text in self.said, self.said

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}


def faust(app: str) -> list[str]:
    return [sys.executable, "-m", "faust", "-A", app]


def url_of(folder: Path) -> str:
    return f"streamtopo://{folder / 'log'}"


def write_app(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text.replace("kafka://localhost:9092", url_of(folder)))
    return name


def feed(log: EmbeddedLog, topic: str, rows: Iterable[Row]) -> None:
    """Keys as text, values as JSON: Faust's defaults for `key_type=str` and numbers."""
    count = log.topics()[topic].partitions
    by_partition: dict[int, list[tuple[bytes, bytes]]] = {}
    for key, value in rows:
        by_partition.setdefault(partition_of(key.encode(), count), []).append(
            (key.encode(), json.dumps(value).encode())
        )
    for number, pairs in by_partition.items():
        keys, values = map(list, zip(*pairs, strict=True))
        log.append(TopicPartition(topic, number), Columns(keys, values, [0] * len(pairs)))


def records(log: EmbeddedLog, topic: str) -> Iterator[Row]:
    """Keys and values of all partitions, from JSON."""
    known = log.topics().get(topic)
    for number in range(known.partitions if known else 0):
        columns = log.read(TopicPartition(topic, number), log.start(TopicPartition(topic, number)), 1 << 40).columns
        yield from zip(map(_parsed, columns.keys), map(_parsed, columns.values), strict=True)


def table(log: EmbeddedLog, topic: str) -> dict[Any, Any]:
    """The last value of each key."""
    return {json.dumps(key) if isinstance(key, list) else key: value for key, value in records(log, topic)}


def _parsed(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
