"""What a task offers its operators and processors: stores, clocks, counters, and the record that is being processed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from streamtopo.engine.program.outbox import Outbox
from streamtopo.engine.program.processor_step import Context, ProcessStep
from streamtopo.engine.program.sinks import noting_times, sink_step
from streamtopo.engine.task.clocks import PutTimes
from streamtopo.engine.task.horizons import Horizons, written
from streamtopo.engine.task.inputs import InputRows
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.progress import Progress
from streamtopo.engine.task.rounds import Round
from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.processors import RecordContext, RecordMetadata
from streamtopo.records import Chunk, ChunkFunction, Order, number_of
from streamtopo.steps import Step, StepLike
from streamtopo.stores import Kind
from streamtopo.stores.rows.state import State
from streamtopo.stores.views import view_of
from streamtopo.stores.views.key_value import ReadOnlyStore, VersionedStore
from streamtopo.topology import Topology
from streamtopo.topology.clocks import Bound, OperatorClock, Register
from streamtopo.topology.coroutines import CallLimits, Coroutine
from streamtopo.topology.nodes import ProcessorNode, SinkNode

T = TypeVar("T")


class TaskContext:
    """The `Bindings` of operators and the `Surroundings` of processors. Each program gets a new one."""

    def __init__(
        self,
        id: TaskId,
        topology: Topology,
        states: Mapping[str, State],
        progress: Progress,
        outbox: Outbox,
        options: TaskOptions,
        horizons: Horizons,
    ) -> None:
        self.application_id = topology.application_id
        self.task_id = str(id)
        self.partition = id.partition
        self.punctuations = progress.punctuations
        self._topology = topology
        self._states = states
        self._progress = progress
        self._outbox = outbox
        self._options = options
        self._horizons = horizons
        self._bound: Bound | None = None
        """That of the node whose operator is being opened."""
        self._shared: dict[str, Any] = {}
        self._round: Round | None = None
        self._left_out: Collection[int] = ()
        self._rows: tuple[list[tuple[InputRows, int]], list[int]] | None = None
        """For each number in the round: its row, and the stream time when that row is processed."""

    def begin(self, round: Round) -> None:
        """Rows of this round are processed from now on, until `end`."""
        self._round = round

    def leave_out(self, numbers: Collection[int]) -> None:
        """These rows of the round do not move stream time."""
        self._left_out, self._rows = {*self._left_out, *numbers}, None

    def end(self) -> None:
        self._round = self._rows = None
        self._left_out = ()

    # -- for operators

    def open(self, node: ProcessorNode) -> StepLike:
        """Open the operator of a node: what it asks for is the node's."""
        self._bound = self._horizons.of(node.name)
        try:
            return node.operator.open(self)
        finally:
            self._bound = None

    def state(self, name: str, *, sends_old: bool = False) -> State:
        state = self._states[name] if name in self._states else self._options.global_states[name]
        if sends_old:
            state.forwarding.send_old()
        return state

    def clock(self, name: str, *, led: bool = False) -> OperatorClock:
        return self._progress.clocks.clock(name, self._bound, led=led)

    def register(self, name: str) -> Register:
        return self._progress.clocks.register(name)

    def committed_time(self, clock: str) -> int:
        return self._progress.committed.clocks.get(clock, -1)

    def shared(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._shared:
            self._shared[name] = make()
        found: T = self._shared[name]
        return found

    def count(self, counter: str, rows: int = 1) -> None:
        if rows:
            self._progress.dropped[counter] += rows

    def await_all(self, function: Coroutine, columns: list[list[Any]], limits: CallLimits) -> list[Any]:
        from streamtopo.engine.program.event_loop import await_all  # asyncio takes long to import

        return await_all(function, columns, limits)

    def process(self, node: str, supplier: Callable[[], Any], fixed_key: bool) -> Step:
        described = self._topology.nodes[node]
        assert isinstance(described, ProcessorNode)
        context = Context(node, described.stores, self._topology.children(node), self)
        self.punctuations.opening = True
        try:
            return ProcessStep(context, supplier, fixed_key=fixed_key)
        except StreamtopoError:
            raise
        except Exception as error:
            raise TopologyError(f'processor "{node}" could not be created: {error!r}') from error
        finally:
            self.punctuations.opening = False

    def sink(self, node: SinkNode) -> ChunkFunction:
        topic = "" if callable(node.topic) else self._topology.topic_of(node.topic)
        step = sink_step(node, topic, self._outbox, self.partition, self._record_context)
        bound = self._horizons.of(node.name)  # that of what is written there
        if node.topic in self._topology.repartitions and node.name in self._horizons.retimed:
            return noting_times(step, self.register(written(node.name)), bound)
        return step

    # -- for processors

    def store_view(self, name: str, now: Callable[[], int]) -> Any:
        if name not in self._states:
            return ReadOnlyStore(self._options.global_states[name], now)
        state, expired = self._states[name], partial(self.count, "expired")
        if state.spec.kind is Kind.VERSIONED:
            return VersionedStore(state, self.clock(name), expired)
        return view_of(state, now, PutTimes(self._progress.clocks, name, now), expired)

    def reads_globally(self, store: str) -> bool:
        return store in self._options.global_states

    def metadata(self, order: Order) -> RecordMetadata | None:
        if self._round is None:
            return None
        part, place = self._numbered(self._round)[0][number_of(order)]
        return RecordMetadata(*part.input.partition, part.rows.offsets[place])

    def stream_time(self, order: Order | None) -> int:
        if order is None or self._round is None:
            return self._progress.time
        return self._numbered(self._round)[1][number_of(order)]

    def wall_clock(self) -> int:
        return self._options.wall_clock()

    def in_larger_round(self) -> bool:
        return self._round is not None and self._round.size > 1

    def request_commit(self) -> None:
        self._options.request_commit()

    # -- inside

    def _numbered(self, round: Round) -> tuple[list[tuple[InputRows, int]], list[int]]:
        if self._rows is None:
            times = round.times(self._progress.stream_time, self._horizons.of_records, self._left_out)
            self._rows = round.rows_by_number(), times
        return self._rows

    def _record_context(self, chunk: Chunk, place: int) -> RecordContext:
        metadata = self.metadata(chunk.order[place]) if chunk.order else None
        return RecordContext(metadata, chunk.timestamps[place], chunk.headers[place] if chunk.headers else ())
