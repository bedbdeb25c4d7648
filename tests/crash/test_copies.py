"""Copies of a log, made as docs/operating/backups.md says: a worker that starts on one reaches the same results."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.crash.apps import check, counting, feed, finished, new_log, working, written
from tests.crash.lives import asleep, living, serve_and_record, until

PAGE = Path(__file__).parents[2] / "docs" / "operating" / "backups.md"
PIECE = 10_000
EVERY = 100_000
"""Bytes between two checkpoints: few, so that the database changes during the copy."""


@pytest.fixture
def back_up() -> Callable[[Path, Path], None]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), names)
    made: Callable[[Path, Path], None] = names["back_up"]
    return made


def check_copy(copy: Path, state: Path, records: int) -> None:
    """Check a copy that was made while the worker was running."""
    with closing(EmbeddedLog(copy)) as log:
        assert 0 < written(log, "negated") < records
        with working(counting(), log, state, cache=0):
            pass
        check(log, state, records)


def test_a_backup_while_a_worker_runs(tmp_path: Path, back_up: Callable[[Path, Path], None]) -> None:
    copies = [tmp_path / f"copy-{number}" for number in range(3)]
    with (
        closing(new_log(tmp_path / "log")) as log,
        living(serve_and_record, log.path, log.path / "state", EVERY, tmp_path / "commits"),
    ):
        for number, copy in enumerate(copies):
            feed(log, number * PIECE, (number + 1) * PIECE)
            until(lambda number=number: written(log, "negated") > number * PIECE)  # type: ignore[misc]
            back_up(log.path, copy)
            until(lambda number=number: finished(log, (number + 1) * PIECE))  # type: ignore[misc]
    for number, copy in enumerate(copies):
        check_copy(copy, copy / "state", (number + 1) * PIECE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_a_copy_of_the_folder_when_nothing_writes(tmp_path: Path, number: int) -> None:
    """A process that sleeps simulates a snapshot: all files are from the same moment."""
    with (
        closing(new_log(tmp_path / "log")) as log,
        living(serve_and_record, log.path, log.path / "state", EVERY, tmp_path / "commits") as worker,
    ):
        feed(log, 0, PIECE)
        until(lambda: written(log, "out") > 0)
        os.kill(worker.pid or 0, number)
        until(lambda: asleep(worker) if number == signal.SIGSTOP else not worker.is_alive())
        shutil.copytree(log.path, tmp_path / "copy")
    check_copy(tmp_path / "copy", tmp_path / "copy" / "state", PIECE)


def test_a_backup_of_a_missing_log_creates_none(tmp_path: Path, back_up: Callable[[Path, Path], None]) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        back_up(tmp_path, tmp_path / "copy")
    assert not (tmp_path / "log.db").exists()
