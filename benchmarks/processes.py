"""Other processes: workers as users start them, functions that run beside each other, and what all of them need."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Event

from benchmarks.machine import ROOT
from benchmarks.places import Site

_PATIENCE = 600.0
_LOOK = 0.02
"""Seconds between two looks, few enough not to take a core from those who are watched."""


class BrokenRunError(Exception):
    """A run that did not do what it should says nothing."""


def processes(count: int) -> ProcessPoolExecutor:
    """Fresh ones, for functions."""
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def without_collections() -> None:
    """What this process has imported, Python's collector looks through no more: it would take 30 ms now and then."""
    gc.collect()
    gc.freeze()


def in_a_process(function: Callable[..., object], *arguments: object) -> None:
    """What it needs of memory goes with it."""
    with processes(1) as pool:
        pool.submit(function, *arguments).result()


def until(condition: Callable[[], bool], what: str, check: Callable[[], object]) -> None:
    """`check` raises if it will not come any more."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise BrokenRunError(f"{what} did not come in {_PATIENCE:.0f} seconds")
        time.sleep(_LOOK)


class Running:
    """A process that is to go on until the end of the run."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._errors = errors

    def check(self) -> None:
        if self._process.poll() is not None:
            raise BrokenRunError(f"the worker ended with {self._process.returncode}: {self._errors.read_text()}")


@contextmanager
def worker(app: str, site: Site, *options: str) -> Iterator[Running]:
    """`streamtopo worker`, until the end of the block."""
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


# -- what the kernel knows of them


def cpu_seconds() -> float:
    """Of all processes that this one has now."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in _below(os.getpid())]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def _below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _below(child)


def most_memory(pid: int) -> float:
    """Megabytes of the machine's memory that the process had at its worst moment."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


@contextmanager
def watched() -> Iterator[Callable[[], float]]:
    """Megabytes that this process and all below it had together at the worst moment; what they share counts once."""
    most, ended = 0.0, Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(_LOOK * 10):
            with suppress(OSError):  # one of them has just ended
                most = max(most, sum(map(_share, [os.getpid(), *_below(os.getpid())])))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(watch)
        try:
            yield lambda: most
        finally:
            ended.set()


def _share(pid: int) -> float:
    """Nothing for one that has ended, be it that nobody has asked for its exit code."""
    found = None
    with suppress(OSError):
        found = re.search(r"\nPss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0
