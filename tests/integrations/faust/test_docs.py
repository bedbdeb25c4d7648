"""What docs/guides/faust.md shows is run: its programs, and its app with its commands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.cli.workers import ROOT, until
from tests.integrations.faust.workers import ENVIRONMENT, FaustWorker, faust, table

TEXT = (ROOT / "docs" / "guides" / "faust.md").read_text()
BLOCKS = re.findall(r"(?:<!-- (.*?) -->\n)?```(\w+)\n(.*?)```", TEXT, re.DOTALL)
PROGRAMS = [code for mark, language, code in BLOCKS if language == "python" and not mark]


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_programs_run(code: str) -> None:
    exec(compile(code, "docs/guides/faust.md", "exec", dont_inherit=True), {"__name__": "docs"})


def test_the_app_runs(tmp_path: Path, log: EmbeddedLog, start: Callable[..., FaustWorker]) -> None:
    assert len(PROGRAMS) == 4
    (app,) = (code for mark, _, code in BLOCKS if mark == "app: visits")
    (tmp_path / "visits.py").write_text(app)
    (shell,) = (code for mark, _, code in BLOCKS if mark == "shell")
    send, work = map(shlex.split, shell.strip().splitlines())
    assert work == ["faust", "-A", "visits", "worker"]
    done = subprocess.run(
        faust("visits") + send[3:], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1])["topic"] == "visits"
    worker = start("visits")
    until(lambda: table(log, "visits-pages-changelog") == {"home": 1})
    assert worker.stop() == 0
