"""A reader that scans everything, over and over, while a worker works: neither the WAL nor the worker grows."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from streamtopo.logs.embedded import checkpoints
from tests.crash.apps import check, everything, feed, finished, new_log, parts, written
from tests.crash.lives import living, serve_with_small_checkpoints, until

MB = 1 << 20


def test_a_reader_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", MB // 2)
    log, wal, resident = new_log(tmp_path / "log"), [], []
    with living(serve_with_small_checkpoints, log.path, tmp_path / "state", MB // 2) as worker:
        for fed in range(2000, 62_000, 2000):
            feed(log, fed - 2000, fed)
            for topic in log.topics():
                assert len([everything(log, part) for part in parts(topic)]) == 3
            wal.append(os.path.getsize(log.path / "log.db-wal"))
            resident.append(memory(worker.pid))
            until(lambda fed=fed: written(log, "negated") > fed - 6000)  # type: ignore[misc]
        until(lambda: finished(log, 60_000), "all of it")
        os.kill(worker.pid or 0, signal.SIGTERM)
        worker.join(30)
        assert worker.exitcode == 0
    assert max(wal) < 10 * MB
    assert max(resident) < min(resident[5:15]) + 40 * MB
    check(log, tmp_path / "state", 60_000)
    log.close()


def memory(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
