"""The directory of a table: a Delta table, the state of its rollup, and a lock."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from streamtopo.errors import StreamtopoError
from streamtopo.spark.delta import versions
from streamtopo.spark.delta.versions import Change, DataFile, Version
from streamtopo.spark.rollups.states import State, read_state, state_text

LOCK, STATES, LATE = "_lock", "_streamtopo", "_late"
COMMIT, RUN = "streamtopo", "streamtopo-run"
"""The names of two numbers in the table: that of the commit, and a random one that tells attempts at it apart."""
VACUUM_EVERY = 86_400
_RUN = re.compile(r"(\d+)-([0-9a-f]{8})")


class Table:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A lock that the kernel releases when the process dies."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StreamtopoError(
                    f'another process is writing "{self.directory}"; run this when that is done, or give another --out'
                ) from None
            yield

    def state(self) -> State | None:
        """The state of the last version; None if there is no table yet."""
        version = versions.version_of(self.directory, (COMMIT, RUN))
        if version is None:
            return None
        number, run = (version.numbers[name] for name in (COMMIT, RUN))
        if number is None or run is None:
            raise StreamtopoError(f'"{self.directory}" is a table that no rollup has made; give another --out')
        return replace(read_state(self._state_file(f"{number}-{run:08x}")), version=version)

    def version(self, number: int) -> Version | None:
        """An earlier version; None if Delta's log has forgotten it."""
        try:
            return versions.version_of(self.directory, as_of=number)
        except StreamtopoError:
            return None

    def begin(self, state: State) -> str:
        """The name of a new run, for its folders; what killed runs have left is removed."""
        for folder in (self.directory, self.directory / LATE, self.directory / STATES):
            for path in folder.glob("*-*"):
                run = _RUN.fullmatch(path.stem)
                if run and (int(run[1]) > state.commit or (folder.name == STATES and int(run[1]) < state.commit)):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        return f"{state.commit + 1}-{uuid.uuid4().hex[:8]}"

    def added(self, run: str) -> list[DataFile]:
        """The files with rows that Spark's tasks wrote in a run; those without are removed."""
        paths = sorted((self.directory / run).glob("*.parquet"))
        found = [versions.file_of(self.directory, path) for path in paths]
        for file in found:
            if not file.rows:
                (self.directory / file.path).unlink()
        return [file for file in found if file.rows]

    def commit(self, state: State, run: str, change: Change) -> State:
        """Make the rows and the state of this run count, together, even after a power failure.

        1. Everything that the run has written is brought to the disk; nothing of it counts yet.
        2. The state is written into a file of its own, with the name of the run.
        3. One entry of Delta's log adds and removes files, and names the run: from now on files and state count. It
           is refused if another process has added an entry.
        4. What no version of the last week needs is deleted, about once a day.
        """
        before, now = state.version, time.time()
        is_due = now - state.vacuumed > VACUUM_EVERY
        state = replace(state, before=before and before.number, vacuumed=now if is_due else state.vacuumed)
        for folder in (self.directory / run, self.directory / LATE / run):
            _sync_all([*folder.rglob("*"), *filter(Path.exists, (folder, folder.parent))])
        file = self._state_file(run)
        file.parent.mkdir(exist_ok=True)
        file.write_text(state_text(state))
        _sync_all([file, file.parent])
        numbers = {COMMIT: state.commit, RUN: int(run.partition("-")[2], 16)}
        versions.commit(self.directory, before, change, numbers, {"offsets": json.dumps(state.offsets)})
        found = self.state()
        assert found is not None
        assert found.version is not None
        new = range(before.number + 1 if before else 0, found.version.number + 1)
        log = self.directory / versions.LOG
        _sync_all([*(log / f"{number:020}.json" for number in new), log, self.directory])
        if is_due:
            self.vacuum()
        return found

    def vacuum(self) -> None:
        versions.vacuum(self.directory)
        for folder in filter(Path.is_dir, self.directory.glob("*-*")):
            if _RUN.fullmatch(folder.name) and not any(folder.iterdir()):
                folder.rmdir()

    def _state_file(self, run: str) -> Path:
        return self.directory / STATES / f"{run}.json"


def _sync_all(paths: Iterable[Path]) -> None:
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
