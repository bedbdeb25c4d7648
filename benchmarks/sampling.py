"""Where a run's time goes, as stacks of functions with their shares: from py-spy, or from a timer signal."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType

from benchmarks.machine import ROOT
from benchmarks.run import timed

Stacks = Counter[tuple[str, ...]]
"""Weight of each stack; the innermost function comes first, the measured one last."""

_INNER = re.compile(r"\.<locals>(\.<(listcomp|genexpr|dictcomp|setcomp)>)?")
_SPIED = re.compile(r"(.*) \((.*):(\d+)\)$")
_TIMED = "benchmarks/run.py timed"


def py_spy() -> str | None:
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))


def spy_on(command: list[str], program: str) -> Stacks:
    """Run the command under py-spy, which looks from outside: exact, and the program is not affected."""
    with tempfile.NamedTemporaryFile(suffix=".raw") as raw:
        options = ["--function", "--rate", "500", "--format", "raw", "--output", raw.name]
        subprocess.run([program, "record", *options, "--", *command], check=True, capture_output=True, cwd=ROOT)
        stacks: Stacks = Counter()
        for line in Path(raw.name).read_text().splitlines():
            stack, _, samples = line.rpartition(" ")
            frames = list(map(_spied, stack.split(";")))
            if _TIMED in frames and "benchmarks/run.py warm_up" not in frames:
                stacks[tuple(reversed(frames[frames.index(_TIMED) + 1 :]))] += int(samples)
    return stacks


def _spied(frame: str) -> str:
    found = _SPIED.fullmatch(frame)
    return _named(found[2], found[1], int(found[3])) if found else frame


def _named(file: str, function: str, line: int) -> str:
    """Return a function's name as in the source; a lambda or the like also with its line."""
    place = file.removeprefix(f"{ROOT}/").removeprefix("streamtopo/")
    return f"{place}:{line} {function}" if "<lambda>" in function else f"{place} {_INNER.sub('', function)}"


class Signalled(AbstractContextManager["Signalled"]):
    """A signal reads the current stack, and gives it the CPU time since the last signal.

    Python delivers it only after C code, whose time goes to the function that called it, or to the next one called.
    """

    def __init__(self) -> None:
        self.stacks: Stacks = Counter()
        self._last = 0

    def __enter__(self) -> Signalled:
        signal.signal(signal.SIGPROF, self._sample)
        self._last = time.process_time_ns()
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        now = time.process_time_ns()
        passed, self._last = now - self._last, now
        stack = []
        while frame is not None and (code := frame.f_code) is not timed.__code__:
            stack.append(_named(code.co_filename, code.co_qualname, code.co_firstlineno))
            frame = frame.f_back
        if stack and frame is not None:
            self.stacks[tuple(stack)] += passed
