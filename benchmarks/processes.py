"""Other processes: workers as users start them, functions run in parallel, and common helpers."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Event

from benchmarks.machine import ROOT
from benchmarks.places import Site

_PATIENCE = 600.0
_LOOK = 0.02
"""Seconds between two checks, long enough not to take a core from the watched processes."""


class BrokenRunError(Exception):
    """The run did not do what it should, so it has no figures."""


def processes(count: int) -> ProcessPoolExecutor:
    """Return an executor with fresh processes."""
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def without_collections() -> None:
    """Exempt imported objects from Python's garbage collector, which would take 30 ms from time to time."""
    gc.collect()
    gc.freeze()


def in_a_process(function: Callable[..., object], *arguments: object) -> None:
    """Run a function in another process, so that its memory is released."""
    with processes(1) as pool:
        pool.submit(function, *arguments).result()


def until(condition: Callable[[], bool], what: str, check: Callable[[], object]) -> None:
    """Wait for the condition; `check` raises if it cannot come true any more."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise BrokenRunError(f"{what} did not happen in {_PATIENCE:.0f} seconds")
        time.sleep(_LOOK)


class Running:
    """A process that must run until the end of the run."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._errors = errors

    def check(self) -> None:
        if self._process.poll() is not None:
            raise BrokenRunError(f"the worker ended with {self._process.returncode}: {self._errors.read_text()}")


@contextmanager
def worker(app: str, site: Site, *options: str) -> Iterator[Running]:
    """Run `streamtopo worker` until the end of the block."""
    command = [sys.executable, "-m", "streamtopo", "worker", app, "--log", site.url, "--state-dir", str(site.state)]
    errors = site.directory / "errors"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMTOPO_")}
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=file
        )
    running = Running(process, errors)
    try:
        yield running
        process.terminate()
        if process.wait(60) != 0:
            running.check()
    finally:
        process.kill()
        process.wait()


# -- figures from the kernel


def cpu_seconds() -> float:
    """Return the CPU time of all child processes."""
    return _cpu_seconds(_below(os.getpid()))


def cpu_seconds_of(pid: int) -> float:
    """Return the CPU time of the process and of all below it."""
    return _cpu_seconds([pid, *_below(pid)])


def _cpu_seconds(pids: Iterable[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def _below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _below(child)


def most_memory(pid: int) -> float:
    """Return the most memory, in megabytes, that the process ever used."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


@contextmanager
def watched() -> Iterator[Callable[[], float]]:
    """Measure the most memory, in megabytes, of this process and all below it together; shared memory counts once."""
    most, ended = 0.0, Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(_LOOK * 10):
            with suppress(OSError):  # the process has just ended
                most = max(most, sum(map(_share, [os.getpid(), *_below(os.getpid())])))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(watch)
        try:
            yield lambda: most
        finally:
            ended.set()


def _share(pid: int) -> float:
    """Return 0 for a process that has ended, even if its exit code was not read yet."""
    found = None
    with suppress(OSError):
        found = re.search(r"\nPss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0
