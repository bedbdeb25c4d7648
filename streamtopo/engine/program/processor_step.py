"""Runs a processor of the user's as a step: gives it records one by one, and collects what it forwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import WeakValueDictionary

from streamtopo.engine.program.punctuation import Punctuations, Schedule
from streamtopo.engine.program.stations import PASSED_ON, TakeSingly
from streamtopo.errors import StreamtopoError, TopologyError, faults
from streamtopo.processors import Clock, Processor, Record, RecordMetadata
from streamtopo.records import EVERY_CHILD, NOTHING, Chunk, Order, below, check_timestamp
from streamtopo.row_calls import noted_halfway
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.steps import Step


class Surroundings(Protocol):
    """What the context of a processor needs from its task."""

    application_id: str
    task_id: str
    punctuations: Punctuations

    def store_view(self, name: str, now: Callable[[], int]) -> Any: ...

    def reads_globally(self, store: str) -> bool:
        """Whether it is a global store, which processors can read without naming it."""
        ...

    def metadata(self, order: Order) -> RecordMetadata | None: ...

    def stream_time(self, order: Order | None) -> int: ...

    def wall_clock(self) -> int: ...

    def in_larger_round(self) -> bool:
        """Whether other records are being processed together with this one."""
        ...

    def request_commit(self) -> None: ...


Push = Callable[[Record, int], None]
"""Sends a record to all children, or to the child at this position, before it returns."""


class Context:
    """The ProcessorContext of one node in one task."""

    def __init__(self, node: str, stores: tuple[str, ...], children: list[str], task: Surroundings) -> None:
        self.application_id = task.application_id
        self.task_id = task.task_id
        self.place = 0
        self.order: Order | None = None
        self.time = 0
        self.forwarded: list[tuple[int, Record, int]] = []
        self.push: Push | None = None
        self.active = False
        """False until the processor is opened."""
        self.only_key: tuple[Any, ...] | None = None
        """With a fixed key: the key of the record being processed, or nothing between records."""
        self._node = node
        self._stores = stores
        self._children = children
        self._task = task
        self._views: dict[str, Any] = {}

    def forward(self, record: Record, child: str | None = None) -> None:
        check_timestamp(record.timestamp, "a record was forwarded with")
        if record.timestamp < 0 or not self.active:
            raise StreamtopoError(
                f"a record was forwarded with timestamp {record.timestamp}; it must be 0 or more"
                if self.active
                else "a record was forwarded in init; forward in process, or in a call that init schedules"
            )
        if self.only_key is not None and self.only_key != (record.key,):
            raise StreamtopoError(
                f"process_values forwarded key {record.key!r}, which is not the key of the record being processed; "
                "use process to change keys"
            )
        route = EVERY_CHILD if child is None else self._route(child)
        record = record.private()
        if self.push is None:
            self.forwarded.append((self.place, record, route))
        else:
            self.push(record, route)

    def _route(self, child: str) -> int:
        if child not in self._children:
            raise StreamtopoError(
                f'"{child}" is not a child of "{self._node}"; its children are {", ".join(self._children) or "none"}'
            )
        return self._children.index(child)

    def schedule(self, interval: Duration, clock: Clock, callback: Callable[[int], object]) -> Schedule:
        if clock == "stream_time" and self._task.in_larger_round():
            raise TakeSingly
        return self._task.punctuations.add(self._node, milliseconds(interval), clock, callback)

    def get_state_store(self, name: str) -> Any:
        if name not in self._stores and not self._task.reads_globally(name):
            raise TopologyError(
                f'processor "{self._node}" asks for store "{name}", which is not connected to it; '
                f"name it in stores=[…] (it has {', '.join(self._stores) or 'none'})"
            )
        if name not in self._views:
            self._views[name] = self._task.store_view(name, lambda: self.time)
        return self._views[name]

    def record_metadata(self) -> RecordMetadata | None:
        return None if self.order is None else self._task.metadata(self.order)

    def current_stream_time_ms(self) -> int:
        return self._task.stream_time(self.order)

    def current_system_time_ms(self) -> int:
        return self._task.wall_clock()

    def commit(self) -> None:
        self._task.request_commit()


_IN_USE = WeakValueDictionary[int, Processor]()
"""Processors in use, by identity: one processor in two tasks would mix up their records. Weak, because a worker may be
abandoned without closing them."""


class ProcessStep(Step):
    """With `push`, each forwarded row is sent before `forward` returns; otherwise all are returned together."""

    def __init__(self, context: Context, supplier: Callable[[], Processor], *, fixed_key: bool) -> None:
        self.processor = supplier()
        if not callable(getattr(self.processor, "process", None)) or isinstance(self.processor, type):
            raise TopologyError(f"the supplier returned {self.processor!r:.80}; it must return a new processor")
        if id(self.processor) in _IN_USE:
            raise TopologyError("the supplier returned a processor that is already in use; return a new one each time")
        _IN_USE[id(self.processor)] = self.processor
        self._context = context
        self._fixed_key = fixed_key
        self.processor.init(context)
        context.active = True

    def close(self) -> None:
        _IN_USE.pop(id(self.processor), None)
        self.processor.close()

    @property
    def push(self) -> Push | None:
        return self._context.push

    @push.setter
    def push(self, push: Push) -> None:
        self._context.push = push

    def process(self, chunk: Chunk) -> Chunk:
        context, process = self._context, self.processor.process
        headers = chunk.headers or [()] * len(chunk)
        order: Sequence[Order | None] = chunk.order or [None] * len(chunk)
        rows = zip(chunk.keys, chunk.values, chunk.timestamps, headers, order, strict=True)
        for context.place, (key, value, time, header, context.order) in enumerate(rows):
            context.time = time
            context.only_key = (key,) if self._fixed_key else None
            try:
                process(Record(key, value, time, header))
            except PASSED_ON:
                raise
            except faults() as error:
                if not noted_halfway(chunk, context.place, error):
                    raise
        context.order = None
        return self._collected(chunk.order)

    def take(self, record: Record, order: Order) -> None:
        """Process one record; what it forwards is sent at once through `push`."""
        context = self._context
        context.order, context.time = order, record.timestamp
        context.only_key = (record.key,) if self._fixed_key else None
        self.processor.process(record)

    def punctuate(self, time: int, call: Callable[[], object]) -> Chunk:
        context = self._context
        context.order, context.place, context.time = None, 0, time
        context.only_key = () if self._fixed_key else None
        call()
        return self._collected(None)

    def _collected(self, order: list[Order] | None) -> Chunk:
        forwarded, self._context.forwarded = self._context.forwarded, []
        if not forwarded:
            return NOTHING
        headers = [record.headers for _, record, _ in forwarded]
        return Chunk(
            [record.key for _, record, _ in forwarded],
            [record.value for _, record, _ in forwarded],
            [record.timestamp for _, record, _ in forwarded],
            headers if any(headers) else None,
            order and [below(order[place], index) for index, (place, _, _) in enumerate(forwarded)],
            routes=[route for _, _, route in forwarded] if len({route for _, _, route in forwarded}) else None,
        )
