"""What a figure depends on besides the code: the machine, its Python, its load, and the commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Machine(NamedTuple):
    cpu: str
    cores: int
    python: str
    system: str

    @property
    def name(self) -> str:
        """As used for directory names."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.cpu} {self.cores} cores".lower()).strip("-")


def this_machine() -> Machine:
    return Machine(_cpu_model(), os.cpu_count() or 1, platform.python_version(), platform.system())


def load() -> float:
    """Return the average number of processes that wanted a core in the last minute: other processes disturb a run."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """Return the short hash, followed by a plus if files were changed since."""
    head = _git("rev-parse", "--short", "HEAD")
    return f"{head}+" if head and _git("status", "--porcelain", "--untracked-files=no") else head or "unknown"


def _git(*command: str) -> str:
    try:
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
