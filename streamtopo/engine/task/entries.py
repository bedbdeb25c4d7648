"""What a worker has done since its last commit. If a step fails, it is repeated: at once, or record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

from streamtopo.engine.failures.left_out import Reject, TryAgain
from streamtopo.engine.program.punctuation import Schedule
from streamtopo.engine.program.stations import Failure, TakeSingly
from streamtopo.engine.task.horizons import Ages
from streamtopo.engine.task.inputs import InputRows
from streamtopo.engine.task.rounds import Round
from streamtopo.engine.task.task import Task
from streamtopo.errors import FailedRecord, Stage, StepError, safely
from streamtopo.row_calls import FailedRow

_PARTS, _FEW = 4, 8
"""A part is divided into so many; few rows are taken one by one."""


class Entry(Protocol):
    """Something a task did."""

    @property
    def task(self) -> Task: ...

    def remembered(self) -> Entry:
        """The form to keep until the commit."""
        ...

    def run(self, reject: Reject, *, fresh: bool) -> None: ...

    def run_carefully(self, reject: Reject) -> Halt | None:
        """The same in small parts. One that fails is undone alone; then `reject` decides whether to continue.

        If it has to wait for a record that is tried again, returns what was done before, and the rest.
        """
        ...


@dataclass(frozen=True)
class Nothing:
    """Instead of an entry that comes again later."""

    task: Task

    def remembered(self) -> Entry:
        return self

    def run(self, reject: Reject, *, fresh: bool) -> None:
        pass

    def run_carefully(self, reject: Reject) -> Halt | None:
        return None


class Halt(NamedTuple):
    """A round that had to stop at a record, which is tried again later."""

    done: Round | None
    """The part of it that was done."""
    rest: Round
    again: TryAgain


@dataclass(frozen=True)
class RoundEntry:
    task: Task
    round: Round

    def remembered(self) -> Entry:
        return RoundEntry(self.task, self.round.raw())

    def run(self, reject: Reject, *, fresh: bool) -> None:
        if self.task.setbacks.expected:
            self.task.setbacks.round_done()
            self.task.run(self.round, partial(self._leave_out_rows, reject), fresh=fresh)
        else:
            self.task.run(self.round, fresh=fresh)
        _punctuate(self.task)

    def run_carefully(self, reject: Reject) -> Halt | None:
        """A part that fails is divided, down to the records that fail alone."""
        self.task.setbacks.round_done()
        size = self.round.size
        parts = [(0, size)]
        while parts:
            start, stop = parts.pop()
            part = self.round.part(start, stop)
            failure = self._attempt(part, reject)
            if failure is not None and stop - start > 1:
                parts += _divided(start, stop, failure)
                del failure  # the frames in its traceback refer to this one
                continue
            if failure is not None and failure.node in self.task.program.timed:
                failure = self._run_without_time(part, reject)
            if failure is not None:
                try:
                    self._leave_out(part, failure, reject)
                except TryAgain as again:
                    done = self.round.part(0, start) if start else None
                    return Halt(done, self.round.part(start, size), again)
                self.task.pass_over(part)
                failure = None
            _punctuate_each_carefully(self.task, reject)
        return None

    def _attempt(self, part: Round, reject: Reject) -> Failure | None:
        if part.size == 1:
            return self.task.attempt(partial(self.task.run, part, fresh=True))
        leave_out = partial(RoundEntry(self.task, part)._leave_out_rows, reject)
        return self.task.attempt(partial(self.task.run, part, leave_out, fresh=True))

    def _run_without_time(self, single: Round, reject: Reject) -> Failure | None:
        """Rows that are forwarded because the record moves the time may have failed, and not the record."""

        def run() -> None:
            with self.task.horizons.held():
                self.task.run(single, fresh=True)

        if (failure := self.task.attempt(run)) is not None:
            return failure
        (part,) = single.parts
        topic, partition = part.input.partition
        call = f"what is due at the time of a record ({topic}/{partition} offset {part.rows.offsets[0]})"
        _pass_time(self.task, self.task.follow_horizon, call, reject)
        return None

    def _leave_out(self, single: Round, failure: Failure, reject: Reject) -> None:
        (part,) = single.parts
        self.task.setbacks.leave_out(self._failed(part, 0, failure), reject)
        self.task.setbacks.expect(undone=failure.node not in self.task.program.leaving_out)

    def _leave_out_rows(self, reject: Reject, failures: Mapping[int, Failure]) -> None:
        for number, failure in sorted(failures.items()):
            try:
                self.task.setbacks.leave_out(self._failed(*self.round.place(number), failure), reject)
            except (StepError, TryAgain):
                # the records before it are not done yet
                raise Failure(failure.node, failure.__cause__ or failure, [number]) from failure.__cause__

    def _failed(self, part: InputRows, place: int, failure: Failure) -> FailedRecord:
        stage: Stage = "step"
        if failure.node in self.task.program.sinks:
            stage = "produce"
        elif failure.node == part.input.source.name:
            stage = "decode"
        attempts = self.task.setbacks.attempts(part.input.partition, part.rows.offsets[place])
        return part.input.failed(failure.node, failure.__cause__ or failure, part.rows, place, stage, attempts)


def _divided(start: int, stop: int, failure: Failure) -> list[tuple[int, int]]:
    """Smaller parts; the first one is the last of the list."""
    if failure.numbers:
        ends = {start, stop, *[start + number + more for number in failure.numbers for more in (0, 1)]}
        return list(pairwise(sorted(ends)))[::-1]
    singly = stop - start <= _FEW or isinstance(failure.__cause__, TakeSingly)
    size = 1 if singly else -(-(stop - start) // _PARTS)
    return [(first, min(first + size, stop)) for first in range(start, stop, size)][::-1]


@dataclass(frozen=True)
class TickEntry:
    """Punctuations that were due by the wall clock."""

    task: Task
    now: int

    def remembered(self) -> Entry:
        return self

    def run(self, reject: Reject, *, fresh: bool) -> None:
        while schedule := self.task.due("wall_clock", self.now):
            self.task.punctuate(schedule, self.now)

    def run_carefully(self, reject: Reject) -> Halt | None:
        while schedule := self.task.due("wall_clock", self.now):
            _punctuate_carefully(self.task, schedule, self.now, "wall clock", reject)
        return None


@dataclass(frozen=True)
class IdleEntry:
    """Stream time moved on with the wall clock, because there were no records."""

    task: Task
    time: int

    def remembered(self) -> Entry:
        return self

    def run(self, reject: Reject, *, fresh: bool) -> None:
        self.task.advance(self.time)
        _punctuate(self.task)

    def run_carefully(self, reject: Reject) -> Halt | None:
        """If it fails, stream time is unchanged, and the wait starts again."""
        _pass_time(self.task, partial(self.task.advance, self.time), f"idle until stream time {self.time}", reject)
        _punctuate_each_carefully(self.task, reject)
        return None


@dataclass(frozen=True)
class HorizonEntry:
    """The tasks that write its repartition topics have got further: clocks that were held back move on."""

    task: Task
    ages: Ages

    def remembered(self) -> Entry:
        return self

    def run(self, reject: Reject, *, fresh: bool) -> None:
        self.task.follow_horizon(self.ages)
        _punctuate(self.task)

    def run_carefully(self, reject: Reject) -> Halt | None:
        """If it fails, clocks are where they were. They follow when the horizon moves on, or a record comes."""
        follow = partial(self.task.follow_horizon, self.ages)
        call = f"closing windows after the tasks before it got further than {self.task.progress.time}"
        _pass_time(self.task, follow, call, reject)
        _punctuate_each_carefully(self.task, reject)
        return None


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
    if not _call_carefully(task, partial(task.punctuate, schedule, now), f"the punctuation at {clock} {now}", reject):
        task.progress.punctuations.skip(schedule.name, now)


def _call_carefully(task: Task, act: Callable[[], object], call: str, reject: Reject) -> bool:
    """Whether it succeeded. It is not tried again: it has no record to wait at, and comes again by itself."""
    if (failure := task.attempt(act)) is None:
        return True
    task.setbacks.leave_out(FailedRecord(failure.node, failure.__cause__ or failure, str(task.id), call=call), reject)
    return False


def _pass_time(task: Task, move: Callable[..., None], call: str, reject: Reject) -> None:
    """Move the time, without the rows that fail and may be left out. If that is not possible, it stays where it is."""
    known = len(task.setbacks.left_out)

    def leave_out(row: FailedRow) -> None:
        number = len(task.setbacks.left_out) - known + 1  # rows may be equal, but each of them counts
        what = f"{call}, row {number}: key {safely(repr, row.key):.10000}, value {safely(repr, row.value):.100000}"
        try:
            task.setbacks.leave_out(FailedRecord(row.node, row.error, str(task.id), call=what), reject)
        except StepError as stop:
            raise Failure(row.node, row.error) from stop

    if task.attempt(move) is not None and task.attempt(partial(move, leave_out=leave_out)) is not None:
        _call_carefully(task, move, call, reject)


def put_back(task: Task, rounds: Sequence[Round], again: TryAgain) -> None:
    """The rows of these rounds come first again, when the first record of them is to be tried again."""
    part, place = rounds[0].place(0)
    task.setbacks.retry(part.input.partition, part.rows.offsets[place], again)
    for round in reversed(rounds):
        for part in round.parts:
            part.input.put_back(part.rows)
