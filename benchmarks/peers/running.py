"""One run of one contender: its process is warmed up, stopped, given all its input, and continued with the clock on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.data import PARTITIONS, Row
from benchmarks.harness import DifferentResultsError
from benchmarks.machine import ROOT
from benchmarks.peers.contenders import Contender, Job
from benchmarks.peers.exactness import exactness
from benchmarks.peers.latency import delays
from benchmarks.peers.server import Filled, Server
from benchmarks.peers.workloads import WORKLOADS, Values, Workload
from benchmarks.processes import Running, cpu_seconds_of, until

Measures = dict[str, float]
_QUIET, _WINDOWS_QUIET = 3.0, 8.0
"""Seconds. Output that has not grown for so long is complete. Windows may wait for their grace by the wall clock."""


class Moment(NamedTuple):
    at: float
    cpu: float
    """Seconds of CPU used so far."""


def moment(running: Running) -> Moment:
    return Moment(time.monotonic(), cpu_seconds_of(running.pid))


def measured(contender: Contender, name: str, records: int, server: Server) -> Measures:
    workload = WORKLOADS[name]
    with tempfile.TemporaryDirectory(prefix="streamtopo-peers-") as directory:
        run = {"latency": _latency, "restore": _restore, "backlog": _backlog}.get(name, _throughput)
        try:
            return run(_Scene(contender, workload, records, server, Path(directory)))
        finally:
            server.empty()


@lru_cache(maxsize=1)
def _rows(workload: str, count: int) -> list[Row]:
    return list(WORKLOADS[workload].rows(count))


@lru_cache(maxsize=1)
def _expected(workload: str, count: int) -> Values:
    return WORKLOADS[workload].expected(_rows(workload, count))


class _Scene:
    """The topics of a run, its process, and its progress."""

    def __init__(self, contender: Contender, workload: Workload, records: int, server: Server, directory: Path) -> None:
        self.workload, self.records, self.server = workload, records, server
        self.warm_up = 0 if workload.backlog else records // 2
        self.state = directory / "state"
        self._errors = directory / "errors"
        commit_at = self.warm_up, self.warm_up + records
        self._command = contender.command(Job(workload, server.brokers, self.state, commit_at))
        self._contender = contender
        self._filled: Filled = {}
        self._written = 0
        server.make([workload.input, workload.output, *workload.tables])
        for topic, rows in workload.tables.items():
            self.fill(topic, list(rows()))

    @property
    def rows(self) -> list[Row]:
        return _rows(self.workload.name, self.warm_up + self.records)

    def fill(self, topic: str, rows: Sequence[Row]) -> None:
        for place, count in self.server.fill(topic, rows).items():
            self._filled[place] = self._filled.get(place, 0) + count

    def until_done(self, running: Running) -> Moment:
        """Wait until all input so far is processed; return when this was."""
        if not self._contender.commits:
            return self._until_quiet(running)
        until(lambda: self.server.done(self.workload, self._filled), "the end of the input", running.check)
        return moment(running)

    def _until_quiet(self, running: Running) -> Moment:
        """Wait until the output grows, and then does not any more; return when it grew last."""
        before, grew = self._written, moment(running)
        patience = _WINDOWS_QUIET if self.workload.backlog else _QUIET

        def quiet() -> bool:
            nonlocal grew
            written = self.server.written(self.workload.output)
            if written != self._written:
                self._written, grew = written, moment(running)
            return written > before and time.monotonic() - grew.at > patience

        until(quiet, "the end of the output", running.check)
        return grew

    def has_started(self) -> bool:
        """Return whether the process is in its group, or, if it has none, has written results."""
        return self.server.is_stable(self.workload.application) or self.server.written(self.workload.output) > 0

    @property
    def expected(self) -> Values:
        return _expected(self.workload.name, len(self.rows))

    @property
    def found(self) -> Values:
        """The last value of each key in the output."""
        last = self.server.output(self.workload.output).last
        return {key: self._read(value) for key, value in last.items()}

    def _read(self, value: bytes) -> Any:
        found = self.workload.read(value)
        if isinstance(found, dict):
            return {name: each for name, each in found.items() if name not in self._contender.adds}
        return found

    @property
    def late(self) -> Measures:
        """What the process said last about late records, at its end. streamtopo says nothing if there were none."""
        said = re.findall(r"\blate:? ([\d,]+)", self._errors.read_text())
        number = said[-1].replace(",", "") if said else "0"
        return {"late": float(number)} if self._contender.reports_late else {}

    def check(self) -> None:
        last, expected = self.found, self.expected
        if last != expected:
            wrong = [key for key in expected.keys() | last.keys() if last.get(key) != expected.get(key)]
            raise DifferentResultsError(
                f"{len(wrong)} of {len(expected)} keys have other values than they should: the last one of "
                f"{wrong[0]!r} is {last.get(wrong[0])}, not {expected.get(wrong[0])}"
            )

    @contextmanager
    def process(self) -> Iterator[Running]:
        """Run the process until the end of the block; it should end when asked, or its group waits for it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMTOPO_")}
        environment["PYTHONPATH"] = str(ROOT)
        with self._errors.open("wb") as output:
            process = subprocess.Popen(self._command, cwd=ROOT, env=environment, stdout=output, stderr=output)
        try:
            yield Running(process, self._errors)
            process.terminate()
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def _throughput(scene: _Scene) -> Measures:
    topic, rows = scene.workload.input, scene.rows
    with scene.process() as running:
        scene.fill(topic, rows[: scene.warm_up])
        scene.until_done(running)
        os.kill(running.pid, signal.SIGSTOP)
        scene.fill(topic, rows[scene.warm_up :])
        began = moment(running)
        os.kill(running.pid, signal.SIGCONT)
        ended = scene.until_done(running)
    scene.check()
    return _rate(scene, began, ended)


def _rate(scene: _Scene, began: Moment, ended: Moment) -> Measures:
    units = scene.records * scene.workload.units
    seconds, cpu = ended.at - began.at, ended.cpu - began.cpu
    return {f"{scene.workload.unit}/s": units / seconds, "CPU us": cpu / units * 1e6}


def _latency(scene: _Scene) -> Measures:
    with scene.process() as running:
        scene.fill(scene.workload.input, scene.rows[:PARTITIONS])
        scene.until_done(running)
        return delays(scene.server.brokers, scene.workload, scene.rows, scene.warm_up)


def _restore(scene: _Scene) -> Measures:
    """Measure how much longer a start takes when the stores are gone."""
    with scene.process() as running:
        scene.fill(scene.workload.input, scene.rows)
        scene.until_done(running)
    scene.check()
    kept = _started(scene)
    shutil.rmtree(scene.state)
    lost = _started(scene)
    return {"records/s": len(scene.rows) / max(lost - kept, 0.001), "start with stores s": kept, "without s": lost}


def _started(scene: _Scene) -> float:
    """Return the seconds until records sent at the start are processed and committed."""
    scene.fill(scene.workload.input, scene.rows[:100])
    began = time.monotonic()
    with scene.process() as running:
        scene.until_done(running)
        return time.monotonic() - began


def _backlog(scene: _Scene) -> Measures:
    """Start the process when all records are there; the clock starts when it is in its group, or has results."""
    scene.fill(scene.workload.input, scene.rows)
    with scene.process() as running:
        until(scene.has_started, "the process in its group", running.check)
        began = moment(running)
        ended = scene.until_done(running)
    return _rate(scene, began, ended) | exactness(scene.found, scene.expected) | scene.late
