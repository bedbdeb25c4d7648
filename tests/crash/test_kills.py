"""Workers killed at random moments: every record counts once, in their outputs and in their stores.

STREAMTOPO_LONG=1 runs the long tests: 300,000 records and 50 kills.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamtopo import Worker
from streamtopo.logs.embedded import EmbeddedLog
from tests.crash.apps import check, counting, feed, finished, new_log, written
from tests.crash.lives import until
from tests.long import long

PROGRAM = """
import sys
from streamtopo import Worker
from tests.crash.apps import counting
log, state_dir = sys.argv[1:]
Worker(counting(), log=log, state_dir=state_dir, cache=0, memory="1MB", chunk=500, commit_interval="10ms").run()
"""

ROOT = Path(__file__).absolute().parents[2]

Start = Callable[[], subprocess.Popen[bytes]]


@pytest.mark.parametrize("processes", [1, 3])
def test_kills_at_random_moments(tmp_path: Path, processes: int) -> None:
    kill_and_check(tmp_path, processes, records=20_000, kills=6)


@long
@pytest.mark.parametrize("processes", [1, 3])
def test_many_kills_at_random_moments(tmp_path: Path, processes: int) -> None:
    kill_and_check(tmp_path, processes, records=300_000, kills=50)


def kill_and_check(path: Path, processes: int, *, records: int, kills: int) -> None:
    seed = int(os.environ.get("STREAMTOPO_SEED", processes))
    print(f"STREAMTOPO_SEED={seed}")  # noqa: T201
    rng, log = random.Random(seed), new_log(path / "log")
    fed = 0
    with starting(path / "log", path / "state") as start:
        running = [start() for _ in range(processes)]
        for number in range(kills):
            more = (number + 1) * records // kills
            feed(log, fed, more)
            await_a_moment(rng, log, fed, more)
            fed = more
            place = rng.randrange(processes)
            running[place].kill()
            running[place].wait()
            running[place] = start()
        until(lambda: finished(log, records), "all of it")
        until(lambda: len(log.groups()["crash"].members) == processes, "the start of the last worker")
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait() for process in running] == [0] * processes
    finish_restoring(path)
    check(log, path / "state", records)
    log.close()


def finish_restoring(path: Path) -> None:
    """Finish the restoration of a store, in case the worker that took over was stopped during it."""
    worker = Worker(counting(), log=f"embedded:{path / 'log'}", state_dir=str(path / "state"), cache=0)
    while worker.run_once(0.01) or not worker.tasks or worker.metrics().restoring:
        pass
    worker.close()


def await_a_moment(rng: random.Random, log: EmbeddedLog, before: int, after: int) -> None:
    """Wait for a random moment: while the worker starts, or just after it has processed some of its input."""
    if rng.random() < 0.3:
        deadline = time.monotonic() + rng.random()
        until(lambda: time.monotonic() > deadline)
        return
    topic, reached = rng.choice(["negated", "out"]), rng.randint(before + 1, after)
    until(lambda: written(log, topic) >= reached, f"record {reached} of {topic}")
    time.sleep(rng.random() * 0.02)


@contextmanager
def starting(log: Path, state_dir: Path, program: str = PROGRAM) -> Iterator[Start]:
    """Yield a function that starts workers in processes; those still running at the end are killed."""
    command = [sys.executable, "-c", program, f"embedded:{log}", str(state_dir)]
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, cwd=ROOT))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()
