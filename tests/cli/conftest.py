"""Each test has its own directory and log. Commands run in this process unless a test starts another one."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamtopo.cli import main
from streamtopo.logs import Log
from streamtopo.logs.opening import open_log

ROOT = Path(__file__).parents[2]
Run = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("STREAMTOPO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run() -> Run:
    def run(*arguments: str, given: str | bytes = b"") -> Result:
        return CliRunner().invoke(main, arguments, input=given)

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """A real process, for pipes and signals."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        } | options
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "streamtopo", *arguments]
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def on_terminal(start: Start, *arguments: str) -> list[str]:
    """The lines that a terminal shows, without colours."""
    ours, theirs = pty.openpty()
    process = start(*arguments, stdin=subprocess.DEVNULL, stdout=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # raised when the process has closed its end
        while read := os.read(ours, 65536):
            shown += read
    os.close(ours)
    assert process.wait(10) == 0
    return re.sub(r"\x1b\[\d*m", "", shown.decode()).splitlines()


@pytest.fixture
def log(folder: Path) -> Iterator[Log]:
    log = open_log()
    yield log
    log.close()


def objects(result: Result) -> list[Any]:
    """Return the printed JSON objects, one per line."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
