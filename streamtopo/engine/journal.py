"""What a worker did since its last commit, to be done again when a step raises: all of it, or record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from streamtopo.engine.punctuation import Schedule
from streamtopo.engine.rounds import Round
from streamtopo.engine.stations import Failure
from streamtopo.engine.task import Task
from streamtopo.errors import StepError


class Entry(Protocol):
    """Something a task did."""

    def remembered(self) -> Entry:
        """What the journal keeps of it."""
        ...

    def run(self, *, fresh: bool) -> None: ...

    def run_carefully(self, reject: Callable[[StepError], None]) -> None:
        """The same, step by step, each undone alone if it fails; `reject` decides whether to go on."""
        ...


@dataclass(frozen=True)
class RoundEntry:
    task: Task
    round: Round

    def remembered(self) -> Entry:
        return RoundEntry(self.task, self.round.raw())

    def run(self, *, fresh: bool) -> None:
        self.task.run(self.round, fresh=fresh)
        for schedule in _due_on_stream_time(self.task):
            self.task.punctuate(schedule, self.task.time)

    def run_carefully(self, reject: Callable[[StepError], None]) -> None:
        for single in self.round.singles():
            (part,) = single.parts
            place = f"{part.input.partition} offset {part.rows.offsets[0]}"
            _attempt(self.task, place, lambda single=single: self.task.run(single, fresh=True), reject)  # type: ignore[misc]
            self.task.reached(single)
            for schedule in _due_on_stream_time(self.task):
                _punctuate_carefully(self.task, schedule, self.task.time, "stream time", reject)


@dataclass(frozen=True)
class TickEntry:
    """Punctuations that were due on the wall clock."""

    task: Task
    now: int

    def remembered(self) -> Entry:
        return self

    def run(self, *, fresh: bool) -> None:
        while schedule := self.task.due("wall_clock", self.now):
            self.task.punctuate(schedule, self.now)

    def run_carefully(self, reject: Callable[[StepError], None]) -> None:
        while schedule := self.task.due("wall_clock", self.now):
            _punctuate_carefully(self.task, schedule, self.now, "wall clock", reject)


@dataclass(frozen=True)
class IdleEntry:
    """Stream time moved on with the wall clock, as no record came."""

    task: Task
    time: int

    def remembered(self) -> Entry:
        return self

    def run(self, *, fresh: bool) -> None:
        self.task.advance(self.time)
        for schedule in _due_on_stream_time(self.task):
            self.task.punctuate(schedule, self.task.time)

    def run_carefully(self, reject: Callable[[StepError], None]) -> None:
        """If it fails, time stays where it was, and the wait begins anew."""
        place = f"task {self.task.id}, idle until stream time {self.time}"
        _attempt(self.task, place, lambda: self.task.advance(self.time), reject)
        for schedule in _due_on_stream_time(self.task):
            _punctuate_carefully(self.task, schedule, self.task.time, "stream time", reject)


def _due_on_stream_time(task: Task) -> Iterator[Schedule]:
    while schedule := task.due("stream_time", task.time):
        yield schedule


def _punctuate_carefully(
    task: Task, schedule: Schedule, now: int, clock: str, reject: Callable[[StepError], None]
) -> None:
    place = f"task {task.id}, the punctuation at {clock} {now}"
    if not _attempt(task, place, lambda: task.punctuate(schedule, now), reject):
        task.skip(schedule.name, now)


def _attempt(task: Task, place: str, act: Callable[[], object], reject: Callable[[StepError], None]) -> bool:
    task.mark()
    try:
        act()
        return True
    except Failure as failure:
        task.undo()
        reject(StepError(failure.node, place, failure.__cause__ or failure))
        return False
    finally:
        task.unmark()
