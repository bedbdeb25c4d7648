"""README's section about the console: typed line by line into a shell, with a worker in the background."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import ROOT

SECTION = re.search(r"## The console\n.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_its_lines_do_what_they_say(folder: Path) -> None:
    assert SECTION
    program = folder / "bin" / "streamtopo"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamtopo "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    shell = ["bash", "-e", "-o", "pipefail", "-c", SECTION[1]]
    ended = subprocess.run(
        shell, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
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
    assert "all that was done is committed" in (folder / "worker.log").read_text()
