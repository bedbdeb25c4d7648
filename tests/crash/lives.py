"""Workers in processes that end when a test wants them to, without closing anything."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from rocksdict import WriteBatch

from streamtopo import Worker
from streamtopo.engine.worker.run import run
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.embedded.storage import checkpoints
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.backends.directory import StateDirectory
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore, open_rocks
from tests.crash.apps import PARTITIONS, counting, finished, parts

DIED, WARNED = 9, 4
LEASE = 0.5
PATIENCE = 120.0
"""Seconds that a busy machine may take for what takes one second on an idle one."""

_context = get_context("forkserver")
_context.set_forkserver_preload(["pytest", "streamtopo.engine.worker.worker", "streamtopo.logs.embedded", "rocksdict"])


class Point(NamedTuple):
    """Just before or just after the n-th call of a function of streamtopo."""

    place: str
    when: str = "before"
    call: int = 1

    def __str__(self) -> str:
        return f"{self.when} {self.place.partition(':')[2]} {self.call}"


def die() -> None:
    """End the process as if killed: nothing is flushed or closed."""
    os._exit(DIED)


def sleep() -> None:
    """Stop this process until another one wakes it."""
    os.kill(os.getpid(), signal.SIGSTOP)


def asleep(process: BaseProcess) -> bool:
    """Return whether all threads of the process are stopped."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):  # a thread has just ended
        return False
    return all(stat.rpartition(") ")[2].startswith("T") for stat in stats)


def at(point: Point, act: Callable[[], None]) -> None:
    """Make this process call `act` when it reaches the point."""
    module, _, path = point.place.partition(":")
    *owners, name = path.split(".")
    owner: Any = import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    function, calls = getattr(owner, name), 0

    @wraps(function)
    def reaching(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls
        if mine == point.call and point.when == "before":
            act()
        result = function(*arguments, **options)
        if mine == point.call and point.when == "after":
            act()
        return result

    setattr(owner, name, reaching)


@contextmanager
def living(function: Callable[..., object], *arguments: object) -> Iterator[BaseProcess]:
    """Run a function in a process, which is killed at the end if it still runs."""
    process = _context.Process(target=function, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()


def live(function: Callable[..., object], *arguments: object) -> int | None:
    """Run a function in a process to its end; return the exit code."""
    with living(function, *arguments) as process:
        process.join(PATIENCE)
        return process.exitcode


class Unexpected(logging.Handler):
    """End the process at a warning: no store is ahead of its changelog, and no commit is refused."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{record.getMessage()}\n")
        os._exit(WARNED)


def flush_each_write() -> None:
    """Flush RocksDB after each write, as it may do at any moment: the rows are still there after a kill."""
    write = RocksStore._write

    def flushing(store: RocksStore, batch: Callable[[], WriteBatch]) -> None:
        write(store, batch)
        store._opened().flush()

    RocksStore._write = flushing  # type: ignore[assignment, method-assign]


def work(log_path: Path, state_dir: Path, records: int, flushed: bool, point: Point | None = None) -> None:
    """Work until this many records were processed, or the point is reached."""
    logging.getLogger("streamtopo").addHandler(Unexpected(logging.WARNING))
    if flushed:
        flush_each_write()
    if point is not None:
        at(point, die)
    log = EmbeddedLog(log_path)
    worker = Worker(
        counting(), log, state_dir=str(state_dir), cache=0, memory="1MB", chunk=20, commit_interval=0, commit_pause=0
    )
    while not finished(log, records) or len(worker.tasks) < 2 * PARTITIONS:
        worker.run_once(0.002)
    worker.close()
    log.close()


def serve(log_path: Path, state_dir: Path, point: Point | None = None, *, chunk: int = 20) -> None:
    """Work with other members until a signal ends the process; sleep once, at the point."""
    if point is not None:
        at(point, sleep)
    log = EmbeddedLog(log_path, lease=LEASE)
    serving(log, state_dir, chunk).run()
    log.close()


def serve_and_record(log_path: Path, state_dir: Path, every: int, into: Path) -> None:
    """Write a checkpoint after this many bytes, and record how many milliseconds each commit took."""
    checkpoints.EVERY = every
    log = EmbeddedLog(log_path, lease=LEASE)
    worker = serving(log, state_dir, 500)
    commits = 0

    def record_duration() -> None:
        nonlocal commits
        if worker._pace.commits > commits:
            commits = worker._pace.commits
            file.write(f"{worker._pace.commit_ms:.3f}\n")

    with into.open("w") as file:
        run(worker, each_turn=record_duration)
    log.close()


def scan(log_path: Path, into: Path) -> None:
    """Read every topic from start to end, again and again; record the number of records each time."""
    log = EmbeddedLog(log_path)
    while True:
        count = 0
        for topic in log.topics():
            for part in parts(topic):
                offset = log.start(part)
                while batch := log.read(part, offset, 10_000).offsets:
                    count, offset = count + len(batch), batch[-1] + 1
        with into.open("a") as file:
            file.write(f"{count}\n")


def serving(log: EmbeddedLog, state_dir: Path, chunk: int = 20) -> Worker:
    state, memory = StateDirectory(state_dir, "crash", lease=LEASE), MemoryBudget(1 << 20)

    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> Store:
        if not stores:
            return MemoryStore()
        return open_rocks(state.open([spec.name for spec in stores], partition), memory)

    return Worker(counting(), log, open_store, cache=0, chunk=chunk, commit_interval=0, commit_pause=0)


def until(condition: Callable[[], object], what: str = "it") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.002)
