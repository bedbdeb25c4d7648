"""What ties a worker process to its pool: reports go up, pauses come down; when the pool goes, so does the process."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from typing import Any

from streamtopo.engine.metrics import Metrics, Restoring

PAUSE, RESUME = b"p", b"r"
"""All that a pool says."""


class Lifeline:
    """The process's end; the pool has the other, and nobody else does."""

    def __init__(self, descriptor: int) -> None:
        self.paused = False
        """What the pool wants."""
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        threading.Thread(target=self._follow, name="lifeline", daemon=True).start()

    def report(self, metrics: Metrics) -> None:
        self._send({"metrics": metrics._asdict()})

    def fail(self, message: str) -> None:
        """What the pool is to say when it ends because of this process."""
        self._send({"failure": message})

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the pool is gone, and in a moment this process is too
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _follow(self) -> None:
        """The reading ends when the pool does, however that ended."""
        with suppress(OSError):
            while said := self._socket.recv(1):
                self.paused = said == PAUSE
        os._exit(1)


class Heard:
    """What a process said last."""

    def __init__(self) -> None:
        self.metrics: Metrics | None = None
        self.failure: str | None = None

    def hear(self, line: bytes) -> None:
        message = json.loads(line)
        self.failure = message.get("failure", self.failure)
        if "metrics" in message:
            self.metrics = _metrics(message["metrics"])


def _metrics(fields: dict[str, Any]) -> Metrics:
    restoring = tuple(Restoring(*each) for each in fields["restoring"])
    return Metrics(**{**fields, "tasks": tuple(fields["tasks"]), "restoring": restoring})
