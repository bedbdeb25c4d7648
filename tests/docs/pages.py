"""A page of the docs, used as a reader would: save files, run programs, type commands, and compare the output."""

from __future__ import annotations

import fnmatch
import os
import pty
import re
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md"]
PATIENCE = 30
FENCE = re.compile(r'^(?:<!-- ([^>]+) -->\n)?```(\w+)(?: title="([^"]+)")?.*\n((?:.*\n)*?)```$', re.MULTILINE)
LOOKS = re.compile(r"streamtopo (query|consume|groups|topics|dlq)|curl")
"""Commands that may be repeated, until the worker in the other terminal has done what they show."""
CHANGES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?"), "TIME"),
    (re.compile(r"^\d\d:\d\d:\d\d", re.M), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]"), ""),
    (re.compile(r"[ \r]+$", re.M), ""),
]
"""What differs from run to run, or is only for the eyes."""


class Block(NamedTuple):
    """A fenced block. The comment before it says where it runs, if not everywhere: "kafka", "spark" or "not run"."""

    mark: str
    language: str
    title: str
    code: str


def blocks(page: Path) -> list[Block]:
    return [Block(*(part or "" for part in found.groups())) for found in FENCE.finditer(page.read_text())]


def play(page: Path, folder: Path, marks: Collection[str] = ("",), broker: str = "127.0.0.1:9092") -> None:
    """Follow a page in this folder. Its files are saved, and only blocks with one of these marks run."""
    with Terminal(folder) as terminal:
        for block in blocks(page):
            if block.mark in marks or (block.title and block.language == "python"):
                block = block._replace(code=terminal.local(block.code).replace("127.0.0.1:9092", broker))
                if block.language == "python":
                    run_python(block, folder)
                elif block.language == "console" and block.title == "Terminal 1":
                    terminal.leave_running(block.code)
                elif block.language == "console":
                    terminal.follow(block.code)


def run_python(block: Block, folder: Path) -> None:
    """Save a file, or run what has no name, each block alone."""
    if block.title:
        (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.title).write_text(block.code)
    else:
        exec(compile(block.code, "block", "exec", dont_inherit=True), {"__name__": "block"})


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command after a dollar, and the output that follows it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def plain(text: str) -> str:
    for pattern, replacement in CHANGES:
        text = pattern.sub(replacement, text)
    return text.strip()


def shown(expected: str, output: str) -> bool:
    """Compare them; "..." stands for anything, and on a line of its own for any number of lines."""
    pattern = re.sub(r"([\[?*])", r"[\1]", plain(expected))
    pattern = re.sub(r"(^|\n)\.\.\.(\n|$)", "*", pattern).replace("...", "*")
    return fnmatch.fnmatchcase(plain(output), pattern)


class Terminal:
    """Two terminals of a reader: one where commands end, and one where a worker runs until the next one or the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: subprocess.Popen[str] | None = None
        bin = folder / "bin"
        bin.mkdir()
        for name, module in {"streamtopo": "streamtopo", "uvicorn": "uvicorn", "pytest": "pytest"}.items():
            (bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
            (bin / name).chmod(0o755)
        paths = {"PATH": f"{bin}:{os.environ['PATH']}", "PYTHONPATH": f"{folder}:{ROOT}"}
        self._environment = os.environ | paths | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "110"}

        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self._environment["UVICORN_PORT"] = self._port

    def local(self, text: str) -> str:
        """Return a text with a free port for the service of the page."""
        return text.replace("127.0.0.1:8000", f"127.0.0.1:{self._port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def follow(self, text: str) -> None:
        for command, expected in commands(text):
            deadline = time.monotonic() + PATIENCE
            while not shown(expected, output := self.type(command)):
                assert LOOKS.match(command), f"$ {command}\n{output}"
                assert time.monotonic() < deadline, f"$ {command}\n{output}"

    def type(self, command: str) -> str:
        """Run a command on a terminal, and return what it shows."""
        ours, its = pty.openpty()
        process = self._start(command, its)
        os.close(its)
        chunks = []
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:  # Linux says so at the end of a terminal
            pass
        os.close(ours)
        process.wait()
        output = b"".join(chunks).decode().replace("\r\n", "\n")
        assert process.returncode == 0, f"$ {command}\n{output}"
        return output

    def leave_running(self, text: str) -> None:
        """Start the only command, and wait until it has written what the page shows."""
        self._stop()
        ((command, expected),) = commands(text)
        output = self._folder / "terminal-1"
        with output.open("w") as file:
            self._running = self._start(f"exec {command}", file.fileno())
        deadline = time.monotonic() + PATIENCE
        while not shown(f"...{expected}...", output.read_text()):
            assert self._running.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)

    def _start(self, command: str, output: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
        )

    def _stop(self) -> None:
        if self._running:
            self._running.terminate()
            self._running.wait(PATIENCE)
            self._running = None
