"""One subtopology on one partition: its inputs, its stores, its program, and what a commit must remember of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson

from streamtopo.engine.ahead import ANY, Ahead, Warnings, limit_of
from streamtopo.engine.clocks import Clocks, OperatorClock, PutTimes, time_of
from streamtopo.engine.compile import Program
from streamtopo.engine.idling import Idling
from streamtopo.engine.inputs import Input, Part, Reject
from streamtopo.engine.outbox import Outbox
from streamtopo.engine.processing import Context, ProcessStep
from streamtopo.engine.punctuation import Punctuations, Schedule
from streamtopo.engine.rounds import Round, take
from streamtopo.engine.sinks import sink_step
from streamtopo.engine.stations import Failure
from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.operators.awaited import Coroutine, Patience
from streamtopo.processors import Clock, RecordContext, RecordMetadata
from streamtopo.records import Batch, Chunk, Columns, Order, Position, Step, TopicPartition, number_of
from streamtopo.stores import Kind, Store
from streamtopo.stores.state import State
from streamtopo.stores.viewing import view_of
from streamtopo.stores.views import ReadOnlyStore, VersionedStore
from streamtopo.topology import ProcessorNode, SinkNode, Subtopology, Topology
from streamtopo.windows import FOREVER

logger = logging.getLogger("streamtopo")
T = TypeVar("T")


class TaskId(NamedTuple):
    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class Options(NamedTuple):
    """What a worker tells all its tasks."""

    wall_clock: Callable[[], int]
    request_commit: Callable[[], None]
    chunk: int = 10_000
    cache: int = 0
    depth_first: bool = False
    global_states: Mapping[str, State] = MappingProxyType({})
    """What the worker keeps for all tasks."""
    ahead: Mapping[str, Ahead] = MappingProxyType({})
    """For each source, how far its records may be ahead of the wall clock."""
    clock_set: int = 0
    """No record is too far ahead of a wall clock before this: that clock was never set."""


class Memory(NamedTuple):
    """What a task remembers beside its stores."""

    time: int
    clocks: dict[str, int]
    input_times: dict[TopicPartition, int]
    reached: dict[TopicPartition, int]
    timetable: dict[str, int]
    dropped: Counter[str]


class Changes(NamedTuple):
    """What one task adds to a commit."""

    rows: dict[bytes, bytes | None]
    changelogs: dict[str, list[Columns]]
    taken_at: int


class Task:
    def __init__(
        self,
        id: TaskId,
        topology: Topology,
        subtopology: Subtopology,
        store: Store,
        outbox: Outbox,
        options: Options,
    ) -> None:
        self.id = id
        self.task_id = str(id)
        self.application_id = topology.application_id
        self.partition = id.partition
        self.subtopology = subtopology
        self.inputs: dict[TopicPartition, Input] = {}
        self._left_out = Counter[str]()
        """What did not get into the inputs, by reason; unlike what operators drop, it is not done again."""
        self._dropped = Counter[str]()
        self.ahead = 0
        """How many records were too far ahead of the wall clock for any clock to follow them."""
        self.time = -1
        self._clocks = Clocks()
        self.punctuations = Punctuations(options.wall_clock)
        self.store = store
        self.states = {
            spec.name: State(spec, store, cached=spec.cached and options.cache > 0) for spec in subtopology.stores
        }
        self._topology = topology
        self._outbox = outbox
        self._options = options
        self._reached: dict[TopicPartition, int] = {}
        self._round: Round | None = None
        self._found: tuple[list[tuple[Part, int]], list[int]] | None = None
        self._processors: list[ProcessStep] = []
        self._shared: dict[str, Any] = {}
        self._saved = self._marked = self._memory()
        self.idling = Idling(options.wall_clock)
        self._at_once = min([options.chunk, *_limits(subtopology)])
        self._ahead = Ahead(limit_of(subtopology.sources, options.ahead))
        self._warnings = Warnings()

    @property
    def dropped(self) -> dict[str, int]:
        """How many rows were dropped, by reason."""
        return dict(self._left_out + self._dropped)

    @property
    def dropped_for_good(self) -> Counter[str]:
        """The same without what was not committed: the next worker of the task drops that again."""
        return self._left_out + self._saved.dropped

    # -- inputs

    def open(self, partitions: Mapping[TopicPartition, Position]) -> None:
        """Start from these positions, with stores already restored."""
        for partition, position in sorted(partitions.items()):
            source = next(s for s in self.subtopology.sources if s.reads(self._described(partition.topic)))
            ahead = self._options.ahead.get(source.name, ANY)
            self.inputs.setdefault(partition, Input(source, partition, self._leave_out, ahead)).clear(position.offset)
            self._reached[partition] = position.offset
            self._recall(self.inputs[partition], position.metadata)
        self._saved = self._memory()
        self._restore(self._saved)
        self._limit_clocks(now := self.wall_clock())
        if self._clocks.times() and self.time > self._clocks.bound.time:
            self._warnings.warn_of_clock(self.task_id, self.time, now)

    def add(self, batch: Batch, reject: Reject) -> None:
        one = self.inputs[batch.source]
        one.add(batch, reject, self._judging(self.wall_clock()))
        if not one.waiting.size and one.poison is None:
            self._reached[batch.source] = batch.next_offset

    def take(self, ends: Mapping[TopicPartition, int]) -> Round | None:
        """The next round, if it is known which records it has."""
        inputs = list(self.inputs.values())
        for one in inputs:
            if one.poison is not None and not one.waiting.size:
                raise one.poison
        due, now = self.punctuations.next_due("stream_time"), self.wall_clock()
        bound = self._ahead.latest(self._judging(now))
        taken = take(inputs, ends, limit=self._at_once, time=self.time, due=due, bound=bound)
        for part in taken.parts if taken is not None else ():
            if part.ahead:
                self._note_ahead(part, now)
        return taken

    def _leave_out(self, reason: str, rows: int) -> None:
        self._left_out[reason] += rows

    def _note_ahead(self, part: Part, now: int) -> None:
        self.ahead += len(part.ahead)
        first = part.ahead[0]
        self._warnings.warn(part.input.partition, part.rows.offsets[first], part.rows.timestamps[first], now)

    # -- processing

    def run(self, round: Round, *, fresh: bool = False) -> None:
        """Pass a round's rows through the program; `fresh` if they were through it before."""
        self._round, self._found = round, None
        self._clocks.bound.time = round.bound
        self.idling.moved()
        shape = self.program.shape
        self.program.run(round.chunks(fresh=fresh, ordered=shape.ordered, paths=shape.paths))
        self._round, self._found = None, None
        self.reached(round)
        self.time = max(self.time, round.time)

    def reached(self, round: Round) -> None:
        """The round is done with."""
        for part in round.parts:
            part.input.time = max(part.input.time, part.time)
            self._reached[part.input.partition] = part.next_offset

    def advance(self, time: int) -> None:
        """Move stream time on without a record."""
        self.idling.moved()
        self.time = max(self.time, time)
        self._clocks.bound.time = max(self._clocks.bound.time, time)
        self.program.advance(time)

    def punctuate(self, schedule: Schedule, now: int) -> None:
        schedule.passed(now)
        if schedule.clock == "wall_clock":
            self._limit_clocks(now)
        self.program.act(schedule.node, now, lambda: schedule.callback(now))

    def skip(self, name: str, now: int) -> None:
        """The schedule of this name failed and was undone; it is not to be called again for now."""
        self.punctuations.skip(name, now)

    def due(self, clock: Clock, now: int) -> Schedule | None:
        return self.punctuations.due(clock, now)

    # -- commit and rollback

    def flush(self) -> None:
        self.program.flush()

    def take_changes(self) -> Changes:
        rows: dict[bytes, bytes | None] = {}
        changelogs = {}
        for name, state in self.states.items():
            changed, logged = state.take_changes()
            rows.update(changed)
            if any(columns.keys for columns in logged):
                changelogs[name] = logged
        return Changes(rows, changelogs, self._options.wall_clock())

    def changelog(self, store: str) -> TopicPartition:
        return TopicPartition(self._topology.changelog_of(store), self.id.partition)

    def write(self, changes: Changes, ends: Mapping[TopicPartition, int]) -> None:
        """The log has these changes; so may the store.

        Since they were taken this process may have been stopped, and what others wrote, and deleted, be gone by now.
        """
        reached = {name: ends[self.changelog(name)] for name in changes.changelogs if self.changelog(name) in ends}
        if changes.rows or reached:
            self.store.write(changes.rows, reached, as_of=changes.taken_at)
        for state in self.states.values():
            state.drop_expired()

    def positions(self) -> dict[TopicPartition, Position]:
        memory = {
            "time": self.time,
            "clocks": self._clocks.times(),
            "due": self.punctuations.timetable("stream_time"),
        }
        return {
            partition: Position(offset, orjson.dumps({"partition": self.inputs[partition].time, **memory}).decode())
            for partition, offset in self._reached.items()
        }

    def committed(self) -> None:
        for state in self.states.values():
            state.committed()
        self._saved = self._memory()

    def rollback(self) -> None:
        """Undo everything since the last commit; rows that wait in the inputs stay there."""
        for state in self.states.values():
            state.rollback()
        self._restore(self._saved)

    def close(self) -> None:
        self._close_processors()
        self.store.close()

    # -- one record at a time, while a failing one is looked for

    def mark(self) -> None:
        for state in self.states.values():
            state.mark()
        self._marked = self._memory()

    def _check(self) -> None:
        """Since a mark: find values that their store cannot hold while the record that caused them is at hand."""
        for name, state in self.states.items():
            try:
                state.check()
            except Exception as error:
                raise Failure(f"store {name}", error) from error

    def undo(self) -> None:
        for state in self.states.values():
            state.undo()
        self._restore(self._marked)

    def unmark(self) -> None:
        for state in self.states.values():
            state.unmark()

    def forward_each(self) -> None:
        """Until the next commit caches hold nothing back, so that a failure shows at the record that causes it."""
        for state in self.states.values():
            state.forward_each = True

    # -- for other threads

    def latest_of(self, store: str) -> int:
        """The latest time that was put into a store, committed or not, too far ahead or not."""
        return self._clocks.latest(store)

    def committed_time_of(self, store: str) -> int:
        return time_of(store, self._saved.clocks)

    # -- what operators ask for (Bindings)

    def await_all(self, function: Coroutine, columns: list[list[Any]], patience: Patience) -> list[Any]:
        from streamtopo.engine.awaiting import await_all  # asyncio takes long to import

        return await_all(function, columns, patience)

    def state(self, name: str) -> State:
        return self.states[name] if name in self.states else self._options.global_states[name]

    def clock(self, name: str) -> OperatorClock:
        return self._clocks[name]

    def shared(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._shared:
            self._shared[name] = make()
        found: T = self._shared[name]
        return found

    def count(self, counter: str, rows: int = 1) -> None:
        if rows:
            self._dropped[counter] += rows

    def process(self, node: str, supplier: Callable[[], Any], fixed_key: bool) -> Step:
        described = self._topology.nodes[node]
        assert isinstance(described, ProcessorNode)
        context = Context(node, described.stores, self._topology.children(node), self)
        self.punctuations.opening = True
        try:
            step = ProcessStep(context, supplier, fixed_key=fixed_key)
        except StreamtopoError:
            raise
        except Exception as error:
            raise TopologyError(f'processor "{node}" could not be made: {error!r}') from error
        finally:
            self.punctuations.opening = False
        self._processors.append(step)
        return step

    # -- what processors ask for (Surroundings)

    def store_view(self, name: str, now: Callable[[], int]) -> Any:
        if name not in self.states:
            return ReadOnlyStore(self._options.global_states[name], now)
        state, expired = self.states[name], partial(self.count, "expired")
        if state.spec.kind is Kind.VERSIONED:
            return VersionedStore(state, self.clock(name), expired)
        return view_of(state, now, PutTimes(self._clocks, name, now), expired)

    def reads_globally(self, store: str) -> bool:
        return store in self._options.global_states

    def metadata(self, order: Order) -> RecordMetadata | None:
        if self._round is None:
            return None
        part, place = self._rows()[0][number_of(order)]
        return RecordMetadata(*part.input.partition, part.rows.offsets[place])

    def stream_time(self, order: Order | None) -> int:
        return self.time if order is None or self._round is None else self._rows()[1][number_of(order)]

    def wall_clock(self) -> int:
        return self._options.wall_clock()

    def in_larger_round(self) -> bool:
        return self._round is not None and self._round.size > 1

    def request_commit(self) -> None:
        self._options.request_commit()

    # -- inside

    def _limit_clocks(self, now: int) -> None:
        self._clocks.bound.time = self._ahead.latest(self._judging(now))

    def _judging(self, now: int) -> int:
        """The wall clock by which records are too far ahead, or not."""
        return now if now >= self._options.clock_set else FOREVER

    def _recall(self, one: Input, metadata: str) -> None:
        """Times only go forward, so of what several inputs remember, the latest holds."""
        if not metadata:
            return
        known = orjson.loads(metadata)
        one.time = known["partition"]
        self.time = max(self.time, known["time"])
        for name, time in clocks_in(metadata).items():
            self._clocks[name].time = max(self._clocks[name].time, time)
        self.punctuations.recall(known["due"])

    def _memory(self) -> Memory:
        times = {partition: one.time for partition, one in self.inputs.items()}
        timetable = self.punctuations.timetable("stream_time", "wall_clock")
        return Memory(self.time, self._clocks.times(), times, dict(self._reached), timetable, self._dropped.copy())

    def _restore(self, memory: Memory) -> None:
        """As it was, with a new program and new processors: what those remember for themselves is gone."""
        self.time = memory.time
        self._clocks.restore(memory.clocks)
        self._reached = dict(memory.reached)
        self._dropped = memory.dropped.copy()
        for partition, time in memory.input_times.items():
            self.inputs[partition].time = time
        self._close_processors()
        self._shared.clear()
        self.punctuations.restart(memory.timetable)
        self._round, self._found = None, None
        self.program = Program(
            self.subtopology,
            self,
            self._outbox,
            self._sink,
            depth_first=self._options.depth_first,
            before_sending=self._check,
        )

    def _close_processors(self) -> None:
        processors, self._processors = self._processors, []
        for step in processors:
            try:
                step.close()
            except Exception:
                logger.exception("task %s: a processor raised while it was closed", self.id)

    def _sink(self, node: SinkNode) -> Step:
        topic = node.topic if callable(node.topic) else self._topology.topic_of(node.topic)
        return sink_step(node, "" if callable(topic) else topic, self._outbox, self.id.partition, self._context_of)

    def _context_of(self, chunk: Chunk, place: int) -> RecordContext:
        metadata = self.metadata(chunk.order[place]) if chunk.order else None
        return RecordContext(metadata, chunk.timestamps[place], chunk.headers[place] if chunk.headers else ())

    def _described(self, topic: str) -> str:
        """A topic's name as the topology has it: internal ones are described without the application id."""
        return next((name for name in self._topology.repartitions if self._topology.topic_of(name) == topic), topic)

    def _rows(self) -> tuple[list[tuple[Part, int]], list[int]]:
        assert self._round is not None
        if self._found is None:
            self._found = self._round.rows_by_number(), self._round.times(self.time)
        return self._found


def clocks_in(metadata: str) -> dict[str, int]:
    """The times of operators in what a task leaves with a position."""
    clocks: dict[str, int] = orjson.loads(metadata).get("clocks", {}) if metadata else {}
    return clocks


def _limits(subtopology: Subtopology) -> list[int]:
    operators = [node.operator for node in subtopology.nodes if isinstance(node, ProcessorNode)]
    return [operator.at_once for operator in operators if operator.at_once is not None]
