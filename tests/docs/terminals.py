"""The terminals of a reader: one for commands that end, and others where a worker is left running."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
PATIENCE = 60
PROGRAMS = ("streamtopo", "uvicorn", "pytest")


class Terminals:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[str]] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        programs = folder / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {name} "$@"\n')
            (programs / name).chmod(0o755)
        self._environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{folder}:{ROOT}",
            "UVICORN_PORT": self._port,
            "NO_COLOR": "1",
            "TERM": "dumb",
            "COLUMNS": "160",
            "LINES": "50",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for title in list(self._running):
            self._stop(title)

    def local(self, text: str) -> str:
        """Return a text with a free port for the service, and our own worker instead of all that have such a name."""
        if worker := self._running.get("Terminal 1"):
            text = text.replace('$(pgrep -f "streamtopo worker visits.py")', str(worker.pid))
        return text.replace("127.0.0.1:8000", f"127.0.0.1:{self._port}")

    def type(self, command: str) -> tuple[int, str]:
        """Run a command on a terminal, and return its exit code and what it shows."""
        ours, its = pty.openpty()
        process = self._open(command, its)
        os.close(its)
        chunks = []
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:  # Linux says so at the end of a terminal
            pass
        os.close(ours)
        process.wait()
        return process.returncode, b"".join(chunks).decode().replace("\r\n", "\n")

    def start(self, title: str, command: str) -> Path:
        """Run a command instead of the one that runs in this terminal; return the file of its output."""
        self._stop(title)
        output = self._folder / title
        with output.open("w") as file:
            self._running[title] = self._open(f"exec {command}", file.fileno())
        return output

    def running(self, title: str) -> bool:
        return self._running[title].poll() is None

    def _open(self, command: str, output: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
        )

    def _stop(self, title: str) -> None:
        if process := self._running.pop(title, None):
            process.terminate()
            process.wait(PATIENCE)
