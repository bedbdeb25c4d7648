"""A reader scans everything, again and again, while a worker runs: neither the WAL nor the worker's memory grows.

STREAMTOPO_LONG=1 runs it for minutes; with -s it prints how long commits took.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles

import pytest

from streamtopo.logs.embedded.storage import checkpoints
from tests.crash.apps import check, feed, finished, new_log, written
from tests.crash.lives import living, scan, serve_and_record, until
from tests.long import long

MB = 1 << 20
FED = 2000


@pytest.mark.parametrize(
    ("records", "every"), [(60_000, MB // 2), pytest.param(4_000_000, checkpoints.EVERY, marks=long)]
)
def test_a_reader_does_not_make_the_worker_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, every: int
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", every)
    log, wal, resident = new_log(tmp_path / "log"), [], []
    commits, scans = tmp_path / "commits", tmp_path / "scans"
    with (
        living(serve_and_record, log.path, tmp_path / "state", every, commits) as worker,
        living(scan, log.path, scans) as reader,
    ):
        for fed in range(FED, records + 1, FED):
            feed(log, fed - FED, fed)
            until(lambda fed=fed: written(log, "negated") > fed - 3 * FED)  # type: ignore[misc]
            wal.append(os.path.getsize(log.path / "log.db-wal"))
            resident.append(memory(worker.pid))
        until(lambda: finished(log, records), "all of it")
        until(lambda: numbers(scans)[-1:] > [3 * records], "a scan of everything")
        os.kill(worker.pid or 0, signal.SIGTERM)
        worker.join(30)
        assert (worker.exitcode, reader.is_alive()) == (0, True)
    print(summary(wal, resident, numbers(commits)))  # noqa: T201
    assert len(numbers(scans)) >= 3
    assert max(wal) < 4 * every + 8 * MB
    begun, middle, last = thirds(resident)
    assert max(last) < max(middle) + 16 * MB
    assert max(last) < max(begun) + 40 * MB
    check(log, tmp_path / "state", records)
    log.close()


def memory(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def numbers(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


def thirds(values: Sequence[float]) -> list[Sequence[float]]:
    third = len(values) // 3
    return [values[:third], values[third : 2 * third], values[2 * third :]]


def summary(wal: Sequence[int], resident: Sequence[int], commits: Sequence[float]) -> str:
    """Return, for each third: the largest WAL, the most memory, and the slowest hundredth of the commits."""

    def each(values: Sequence[float], what: Callable[[Sequence[float]], float]) -> str:
        return " ".join(f"{what(third):.1f}" for third in thirds(values))

    return (
        f"\nWAL {each(wal, max_mb)} MB, resident {each(resident, max_mb)} MB, "
        f"commit p99 {each(commits, lambda third: quantiles(third, n=100)[98])} ms"
    )


def max_mb(values: Sequence[float]) -> float:
    return max(values) / MB
