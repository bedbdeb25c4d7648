"""Each test is in a folder of its own, with its log; commands run in this process unless a test starts another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture
def log(folder: Path) -> Iterator[Log]:
    log = open_log()
    yield log
    log.close()


def objects(result: Result) -> list[Any]:
    """What was printed, an object a line."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
