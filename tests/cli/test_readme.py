"""README's section about the console: its commands run, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.cli.conftest import ROOT, Run

SECTION = re.search(r"## The console\n.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_its_commands_run_in_this_order(run: Run, folder: Path) -> None:
    assert SECTION
    for line in SECTION[1].splitlines():
        given = b""
        for command in line.partition("#")[0].split(" | "):
            program, *arguments = shlex.split(command)
            if program == "echo":
                given = " ".join(arguments).encode()
                continue
            result = run(*arguments, given=given)
            assert result.exit_code == 0, result.output
            given = result.stdout_bytes
