"""A process that takes part in a log: evaluates each line of its input, and answers with what came out."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from streamtopo.logs.embedded import EmbeddedLog


class Child:
    """`child("member.assignment()")`; the names are `log`, `member` and those of tests/logs/records.py."""

    def __init__(self, path: Path, lease: float = 10.0) -> None:
        command = [sys.executable, "-m", "tests.logs.child", str(path), str(lease)]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def __call__(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def main(path: str, lease: str) -> None:
    from tests.logs import records

    log = EmbeddedLog(path, lease=float(lease))
    names = {**vars(records), "log": log, "member": log.join("g", [("t",)])}
    for line in sys.stdin:
        sys.stdout.write(f"{eval(line, names)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
