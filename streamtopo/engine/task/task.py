"""One subtopology on one partition: its inputs, its stores and its program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from streamtopo.engine.failures.left_out import LeftOut, Reject
from streamtopo.engine.failures.policies import STORE
from streamtopo.engine.failures.setbacks import Setbacks
from streamtopo.engine.program.outbox import Outbox
from streamtopo.engine.program.program import LeaveOut, LeaveOutRow, Program
from streamtopo.engine.program.punctuation import Schedule
from streamtopo.engine.program.stations import Failure
from streamtopo.engine.task.ahead import ANY, ClockLimit, limit_of, warn_of_clock
from streamtopo.engine.task.context import TaskContext
from streamtopo.engine.task.horizons import Ages, Horizons
from streamtopo.engine.task.inputs import Input
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.patience import Patience
from streamtopo.engine.task.progress import Progress
from streamtopo.engine.task.rounds import Round, take
from streamtopo.processors import Clock
from streamtopo.records import Batch, Columns, Position, TopicPartition
from streamtopo.stores import Store
from streamtopo.stores.rows.state import State
from streamtopo.topology import Topology
from streamtopo.topology.nodes import ProcessorNode, Subtopology

"""What is named as the step if a store cannot hold a value."""

OriginsOf = Callable[[str], Sequence[TaskId]]
"""The tasks that write a topic, if it is a repartition topic and those that read it ask for the time."""


def no_origins(topic: str) -> Sequence[TaskId]:
    return ()


class TaskChanges(NamedTuple):
    """What one task adds to a commit."""

    rows: dict[bytes, bytes | None]
    changelogs: dict[str, list[Columns]]
    rejected: list[LeftOut]
    """Records that failed and are left out; this commit passes them."""
    taken_at: int


class Task:
    def __init__(
        self,
        id: TaskId,
        topology: Topology,
        subtopology: Subtopology,
        store: Store,
        outbox: Outbox,
        options: TaskOptions,
    ) -> None:
        self.id = id
        self.inputs: dict[TopicPartition, Input] = {}
        self.store = store
        self.states = {
            spec.name: State(spec, store, cached=spec.cached and options.cache > 0) for spec in subtopology.stores
        }
        ahead = ClockLimit(limit_of(subtopology.sources, options.ahead), options.clock_set)
        self.horizons = Horizons(
            subtopology, ahead, options.origin_idle, lambda name: self.progress.clocks.register(name)
        )
        self.progress = Progress(options, self.horizons.whole)
        self.patience = Patience(options.max_task_idle, options.steady_clock)
        self._topology = topology
        self._subtopology = subtopology
        self._outbox = outbox
        self._options = options
        self._round_size = min([options.chunk, *_limits(subtopology)])
        """The largest number of rows in a round."""
        self.setbacks = Setbacks(options.steady_clock)
        """Records on which steps failed since the last commit."""
        self.context = self._new_context()
        self._opened = ExitStack()
        """Closes the program, if there is one."""

    # -- inputs

    def open(
        self, partitions: Mapping[TopicPartition, Position], origins: OriginsOf = no_origins, *, alone: bool = True
    ) -> None:
        """Start from these positions. The stores are restored by now. `origins` are the tasks that write a topic.

        `alone`: no task shares the work with this one, or with those before it.
        """
        self.horizons.alone = alone
        for partition, position in sorted(partitions.items()):
            topic = _described(self._topology, partition.topic)
            source = next(s for s in self._subtopology.sources if s.reads(topic))
            ahead, has_marks = self._options.ahead.get(source.name, ANY), topic in self._topology.repartitions
            place = self.progress.open(partition, position, origins(partition.topic))
            self.horizons.read(source.name, partition, place)
            self.inputs[partition] = Input(
                source, partition, str(self.id), place, self.progress.left_out, ahead, has_marks=has_marks
            )
        self.progress.write()
        self.progress.commit()
        self._begin()
        self.progress.remember_schedules()
        self.horizons.follow(self.horizons.found)
        self.horizons.commit()
        self.horizons.left_behind = self.progress.stream_time.behind or self.progress.clocks.behind
        self.horizons.limit(bound := self.horizons.ahead.latest(now := self._options.wall_clock()))
        if self.progress.clocks.times() and self.progress.time > bound:
            warn_of_clock(str(self.id), self.progress.time, now)

    def add(self, batch: Batch, reject: Reject) -> int:
        """Queue the records of the batch; returns how many there are."""
        one = self.inputs[batch.source]
        records = one.add(batch, reject, self.horizons.ahead.judged(self._options.wall_clock()))
        one.pass_left_out()
        return records

    def add_unread(self, reject: Reject) -> list[int]:
        """Decode again what could not be decoded, where it is time for that; returns the counts of the inputs."""
        due = [
            one
            for one in self.inputs.values()
            if one.retry_at is not None and one.retry_at <= self._options.steady_clock()
        ]
        counts = [one.add_unread(reject, self.horizons.ahead.judged(self._options.wall_clock())) for one in due]
        for one in due:
            one.pass_left_out()
        return counts

    def pass_left_out(self) -> None:
        """All rounds were done again: move past the records that were left out after them."""
        for one in self.inputs.values():
            one.pass_left_out()

    @property
    def has_rows(self) -> bool:
        """Whether rows wait for their round, and not for rows of other inputs."""
        return not (self.patience.waits or self.setbacks.waiting) and any(
            one.waiting.offsets for one in self.inputs.values()
        )

    def take(self, ends: Mapping[TopicPartition, int]) -> Round | None:
        """The next round, if it is known which rows it has."""
        inputs = list(self.inputs.values())
        for one in inputs:
            if one.poison is not None and not one.waiting.offsets:
                raise one.poison
        limit = self.setbacks.limit(self._round_size, lambda partition: self.inputs[partition].first)
        if not limit or not any(one.waiting.offsets for one in inputs):
            return None
        due, now = self.progress.punctuations.next_due("stream_time"), self._options.wall_clock()
        if due is not None and due > self.horizons.whole.horizon:
            due = None  # no row of this round moves stream time as far as that
        bound = self.horizons.ahead.latest(now)
        ends = self.patience.ends(inputs, ends)
        taken = take(inputs, ends, limit=limit, time=self.progress.time, due=due, bound=bound)
        for part in taken.parts if taken is not None else ():
            if part.ahead:
                first = part.ahead[0]
                offset, time = part.rows.offsets[first], part.rows.timestamps[first]
                self.horizons.ahead.passed(len(part.ahead), part.input.partition, offset, time, now)
        return taken

    # -- processing

    def run(self, round: Round, leave_out: LeaveOut | None = None, *, fresh: bool = False) -> None:
        """Pass the rows of a round through the program; `fresh` if they have been through it before.

        With `leave_out`, rows that steps without state fail on are left out, if it allows that.
        """
        self.horizons.limit(round.bound)
        self.progress.moved()
        shape = self.program.shape
        left_out: Collection[int] = ()
        self.context.begin(round)
        try:
            if leave_out is None:
                self.program.run(round.chunks(fresh=fresh, ordered=shape.ordered, paths=shape.paths))
            else:
                chunks = round.chunks(fresh=fresh, ordered=True, paths=shape.paths)
                left_out = self.program.run_carefully(chunks, leave_out)
        finally:
            self.context.end()  # processors refer to it in cycles, and would keep the rows in memory
        times = round.times_without(left_out)
        for part, time in zip(round.parts, times, strict=True):
            part.input.place.move(part.next_offset, time)
        self.progress.stream_time.observe(max(times))

    def pass_over(self, round: Round) -> None:
        """The round is left out: it does not move the time."""
        for part in round.parts:
            part.input.place.move(part.next_offset)

    def advance(self, time: int, leave_out: LeaveOutRow | None = None) -> None:
        """Move stream time forward without a record. With `leave_out`, rows that fail are left out."""
        self.progress.moved()
        self.progress.stream_time.reach(time)
        self.horizons.limit(max(self.horizons.whole.time, time))
        self._advance(leave_out, time)

    def follow_horizon(self, ages: Ages | None = None, leave_out: LeaveOutRow | None = None) -> None:
        """Move all clocks that were held back; with `ages`, because tasks that write its topics have got further."""
        if ages is not None:
            self.horizons.follow(ages)
        self.progress.stream_time.catch_up()
        if self.progress.clocks.catch_up():
            self.progress.moved()
            self._advance(leave_out)

    def _advance(self, leave_out: LeaveOutRow | None, time: int = -1) -> None:
        if leave_out is None:
            self.program.advance(time)
        else:
            self.program.advance_carefully(leave_out, time)

    def punctuate(self, schedule: Schedule, now: int) -> None:
        schedule.passed(now)
        if schedule.clock == "wall_clock":
            self.horizons.limit(self.horizons.ahead.latest(now))
        self.program.punctuate(schedule.node, now, lambda: schedule.callback(now))

    def due(self, clock: Clock, now: int) -> Schedule | None:
        return self.progress.punctuations.due(clock, now)

    # -- commit and rollback

    def before_commit(self) -> None:
        self.program.before_commit()

    def take_changes(self) -> TaskChanges:
        self.progress.write()
        # Only up to the positions of the inputs. If this worker ends, records after them are read again.
        inputs = self.inputs.values()
        undecoded = [one for input in inputs for one in input.rejected if one.offset < input.place.offset]
        left_out = undecoded + self.setbacks.left_out
        rows: dict[bytes, bytes | None] = {}
        changelogs = {}
        for name, state in self.states.items():
            changed, logged = state.take_changes()
            rows.update(changed)
            if any(columns.keys for columns in logged):
                changelogs[name] = logged
        return TaskChanges(rows, changelogs, left_out, self._options.wall_clock())

    def changelog(self, store: str) -> TopicPartition:
        return TopicPartition(self._topology.changelog_of(store), self.id.partition)

    def write(self, changes: TaskChanges, ends: Mapping[TopicPartition, int]) -> None:
        """Write the changes to the store, now that the log has them.

        `taken_at` tells the store how old they are: the process may have been stopped since they were taken. Meanwhile
        others may have written deletions to the changelog that compaction has removed by now.
        """
        reached = {name: ends[self.changelog(name)] for name in changes.changelogs if self.changelog(name) in ends}
        if changes.rows or reached:
            self.store.write(changes.rows, reached, as_of=changes.taken_at)
        for state in self.states.values():
            state.expiry.drop()

    def committed(self) -> None:
        for state in self.states.values():
            state.committed()
        self.setbacks.committed()
        for one in self.inputs.values():
            one.rejected = [failed for failed in one.rejected if failed.offset >= one.place.offset]
        self.progress.commit()
        self.horizons.commit()

    def rollback(self, *, hold_back: bool = True) -> None:
        """Undo everything since the last commit; rows that wait in the inputs stay there.

        Without `hold_back` caches hold nothing back until the next commit, so that a failure shows at its record.
        """
        self.setbacks.left_out = []
        for state in self.states.values():
            state.rollback(hold_back=hold_back)
        self._opened.close()
        self.progress.rollback()
        self.horizons.rollback()
        self._begin()

    def close(self) -> None:
        self._opened.close()
        self.store.close()

    def _begin(self) -> None:
        """Make a new program with new processors, which remember nothing."""
        self.context = self._new_context()
        self.program = Program(
            self._subtopology,
            self.context,
            self._outbox,
            depth_first=self._options.depth_first,
            before_sending=self._check,
        )
        self._opened.callback(self.program.close)

    def _new_context(self) -> TaskContext:
        return TaskContext(
            self.id, self._topology, self.states, self.progress, self._outbox, self._options, self.horizons
        )

    # -- a few records at a time, to find the one that fails

    def attempt(self, act: Callable[[], object]) -> Failure | None:
        """Do something. If it fails, undo only that, and return the failure."""
        for state in self.states.values():
            state.mark()
        self.progress.mark()
        known = len(self.setbacks.left_out)
        try:
            act()
            return None
        except Failure as failure:
            del self.setbacks.left_out[known:]
            self._undo()
            return failure
        finally:
            for state in self.states.values():
                state.unmark()

    def _undo(self) -> None:
        for state in self.states.values():
            state.undo()
        self._opened.close()
        self.progress.undo()
        self._begin()

    def _check(self) -> None:
        """Find values that their store cannot hold while the record that caused them is known."""
        for name, state in self.states.items():
            try:
                state.check()
            except Exception as error:
                raise Failure(STORE + name, error) from error


def _described(topology: Topology, topic: str) -> str:
    """The name of a topic in the topology, where internal topics have no application id."""
    return next((name for name in topology.repartitions if topology.topic_of(name) == topic), topic)


def _limits(subtopology: Subtopology) -> list[int]:
    operators = [node.operator for node in subtopology.nodes if isinstance(node, ProcessorNode)]
    return [operator.at_once for operator in operators if operator.at_once is not None]
