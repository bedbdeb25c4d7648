"""One broker process: started, watched and stopped. It holds a lock on a file for as long as it runs."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from streamtopo.errors import BrokerError
from streamtopo.private_directories import make_private

STARTED = "Kafka Server started"
_START, _STOP = 60.0, 10.0
"""Seconds."""
_HEAP = "-Xms256M -Xmx1G"
_LAST_LINES = 8


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "kafka.log"
        self._pid = directory / "pid"
        self._lock = directory / "lock"

    @property
    def pid(self) -> int | None:
        """None if it is not running. The kernel frees the lock when the process ends: it is never another one."""
        if not self._lock.exists():
            return None
        with self._lock.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                with suppress(ValueError, FileNotFoundError):
                    return int(self._pid.read_text())
        return None

    def start(self, java: str, jars: list[Path], properties: Mapping[str, str], cluster: str) -> None:
        make_private(self.directory)
        file = self.directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        runs = [java, *shlex.split(os.environ.get("KAFKA_HEAP_OPTS", _HEAP)), "-XX:+UseSerialGC"]
        runs += ["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        runs += ["-cp", os.pathsep.join(map(str, jars))]
        with self._lock.open("w") as lock, self.log.open("w") as log:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not Path(properties["log.dirs"], "meta.properties").exists():
                self._format(runs, file, cluster)
            os.set_inheritable(lock.fileno(), True)
            pid = _started([*runs, "kafka.Kafka", str(file)], log.fileno())
            self._pid.write_text(str(pid))

    def _format(self, runs: list[str], file: Path, cluster: str) -> None:
        command = [*runs, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"Kafka's storage in {self.directory} could not be formatted:\n{done.stderr.strip()}")

    def wait_until_started(self) -> None:
        deadline = time.monotonic() + _START
        while STARTED not in self.log.read_text(errors="replace"):
            if self.pid is None:
                raise BrokerError(f"the broker ended while it started; {self.log} says why:\n{self.errors()}")
            if time.monotonic() > deadline:
                raise BrokerError(f"the broker did not start within {_START:.0f} s; see {self.log}")
            time.sleep(0.05)

    def signal(self, number: int) -> bool:
        """False if there is no process."""
        pid = self.pid
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return True

    def errors(self) -> str:
        """The errors in its log, each with the next line; the end of the log if there are none."""
        lines = self.log.read_text(errors="replace").splitlines()
        errors = [f"{line}\n{following}" for line, following in pairwise([*lines, ""]) if " ERROR " in line]
        return "\n".join(errors[:_LAST_LINES]) or self.tail()

    def tail(self, lines: int = _LAST_LINES) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


def _started(command: list[str], output: int) -> int:
    """It runs in a session of its own, so that it outlives this process and its terminal."""
    streams = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    outputs = [(os.POSIX_SPAWN_DUP2, output, stream) for stream in (1, 2)]
    return os.posix_spawn(command[0], command, os.environ, file_actions=[*streams, *outputs], setsid=True)


def stop(nodes: Iterable[Node]) -> None:
    """Signal all at the same time, as the last broker of a cluster waits for the others; later kill those left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        asked = [node for node in nodes if node.signal(number)]
        deadline = time.monotonic() + _STOP
        while any(node.pid is not None for node in asked) and time.monotonic() < deadline:
            time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise BrokerError(
                f"port {port} is used by another process; stop that process, or choose another port: --port N"
            ) from None
