"""What a worker has done since its last commit. If a step fails, it is repeated: at once, or record by record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from streamtopo.engine.program.punctuation import Schedule
from streamtopo.engine.task.horizons import Ages
from streamtopo.engine.task.inputs import Reject
from streamtopo.engine.task.rounds import Round
from streamtopo.engine.task.task import Failed, Task
from streamtopo.errors import FailedRecord


class Entry(Protocol):
    """Something a task did."""

    def remembered(self) -> Entry:
        """The form to keep until the commit."""
        ...

    def run(self, *, fresh: bool) -> None: ...

    def run_carefully(self, reject: Reject) -> None:
        """The same, record by record. One that fails is undone alone; then `reject` decides whether to continue."""
        ...


@dataclass(frozen=True)
class RoundEntry:
    task: Task
    round: Round

    def remembered(self) -> Entry:
        return RoundEntry(self.task, self.round.raw())

    def run(self, *, fresh: bool) -> None:
        self.task.run(self.round, fresh=fresh)
        _punctuate(self.task)

    def run_carefully(self, reject: Reject) -> None:
        for single in self.round.singles():
            (part,) = single.parts
            self.task.attempt(partial(self.task.run, single, fresh=True), part.failed, reject)
            self.task.passed(single)
            _punctuate_each_carefully(self.task, reject)


@dataclass(frozen=True)
class TickEntry:
    """Punctuations that were due by the wall clock."""

    task: Task
    now: int

    def remembered(self) -> Entry:
        return self

    def run(self, *, fresh: bool) -> None:
        while schedule := self.task.due("wall_clock", self.now):
            self.task.punctuate(schedule, self.now)

    def run_carefully(self, reject: Reject) -> None:
        while schedule := self.task.due("wall_clock", self.now):
            _punctuate_carefully(self.task, schedule, self.now, "wall clock", reject)


@dataclass(frozen=True)
class IdleEntry:
    """Stream time moved on with the wall clock, because there were no records."""

    task: Task
    time: int

    def remembered(self) -> Entry:
        return self

    def run(self, *, fresh: bool) -> None:
        self.task.advance(self.time)
        _punctuate(self.task)

    def run_carefully(self, reject: Reject) -> None:
        """If it fails, stream time is unchanged, and the wait starts again."""
        failed = _failed_call(self.task, f"idle until stream time {self.time}")
        self.task.attempt(partial(self.task.advance, self.time), failed, reject)
        _punctuate_each_carefully(self.task, reject)


@dataclass(frozen=True)
class HorizonEntry:
    """The tasks that write its repartition topics have got further: clocks that were held back move on."""

    task: Task
    ages: Ages

    def remembered(self) -> Entry:
        return self

    def run(self, *, fresh: bool) -> None:
        self.task.follow_horizon(self.ages)
        _punctuate(self.task)

    def run_carefully(self, reject: Reject) -> None:
        """If it fails, clocks are where they were. They follow when the horizon moves on, or a record comes."""
        failed = _failed_call(self.task, "closing windows after the tasks before it got further")
        self.task.attempt(partial(self.task.follow_horizon, self.ages), failed, reject)
        _punctuate_each_carefully(self.task, reject)


def _due_on_stream_time(task: Task) -> Iterator[Schedule]:
    while schedule := task.due("stream_time", task.progress.time):
        yield schedule


def _punctuate(task: Task) -> None:
    """Make the calls that are due on stream time."""
    for schedule in _due_on_stream_time(task):
        task.punctuate(schedule, task.progress.time)


def _punctuate_each_carefully(task: Task, reject: Reject) -> None:
    for schedule in _due_on_stream_time(task):
        _punctuate_carefully(task, schedule, task.progress.time, "stream time", reject)


def _punctuate_carefully(task: Task, schedule: Schedule, now: int, clock: str, reject: Reject) -> None:
    failed = _failed_call(task, f"the punctuation at {clock} {now}")
    if not task.attempt(partial(task.punctuate, schedule, now), failed, reject):
        task.progress.punctuations.skip(schedule.name, now)


def _failed_call(task: Task, call: str) -> Failed:
    return lambda node, cause: FailedRecord(node, cause, str(task.id), call=call)
