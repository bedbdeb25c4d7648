"""Connects a worker process with its pool: it reports metrics, can be paused, and ends when the pool ends."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from typing import Any

from streamtopo.engine.metrics import Failures, Metrics, RestoreProgress, TimeHeldBack
from streamtopo.records import TopicPartition

PAUSE, RESUME = b"p", b"r"
"""All messages from a pool to its processes."""


class Lifeline:
    """The end of the process; only the pool has the other end."""

    def __init__(self, descriptor: int) -> None:
        self.paused = False
        """Whether the pool wants the process to pause."""
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        threading.Thread(target=self._follow, name="lifeline", daemon=True).start()

    def report(self, metrics: Metrics) -> None:
        self._send({"metrics": metrics._asdict()})

    def fail(self, message: str) -> None:
        """Send the message that the pool shows when it ends because of this process."""
        self._send({"failure": message})

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the pool has ended, and this process will end in a moment
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _follow(self) -> None:
        """When the pipe reaches its end, the pool has ended, for whatever reason."""
        with suppress(OSError):
            while said := self._socket.recv(1):
                self.paused = said == PAUSE
        os._exit(1)


class Reports:
    """The last report of a process."""

    def __init__(self) -> None:
        self.metrics: Metrics | None = None
        self.failure: str | None = None

    def read(self, line: bytes) -> None:
        message = json.loads(line)
        self.failure = message.get("failure", self.failure)
        if "metrics" in message:
            self.metrics = _metrics(message["metrics"])


def _metrics(fields: dict[str, Any]) -> Metrics:
    restoring = tuple(RestoreProgress(*each) for each in fields["restoring"])
    held_back = tuple(
        TimeHeldBack(task, tuple(TopicPartition(*one) for one in partitions), *rest)
        for task, partitions, *rest in fields["held_back"]
    )
    failures = tuple(Failures(*one) for one in fields["failures"])
    read = {"tasks": tuple(fields["tasks"]), "restoring": restoring, "held_back": held_back, "failures": failures}
    return Metrics(**{**fields, **read})
