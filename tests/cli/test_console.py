"""The page about the console, run in a shell with a worker in the background."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import ROOT

SECTION = re.search(r"```sh\n(.*?)```", (ROOT / "docs/guides/console.md").read_text(), re.DOTALL)


def shell(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in bash, with `streamtopo` on the PATH. It stops at the first command that fails."""
    program = folder / "bin" / "streamtopo"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamtopo "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


def test_the_lines_of_the_page_work(folder: Path) -> None:
    assert SECTION
    ended = shell(folder, SECTION[1])
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert sorted(lines[lines.index('1 record written to "sentences"') + 1 :][:4]) == [
        "be\t2",
        "not\t1",
        "or\t1",
        "to\t2",
    ]
    assert "be\t2" in lines[lines.index("wordcount\t1\t8\t0") :]  # the query, after the worker's end
    assert lines[-4:-2] == ["sentences\t4\t-", "word-counts\t4\t-"]
    assert "all results are committed" in (folder / "worker.log").read_text()
