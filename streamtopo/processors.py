"""The Processor API: what a user-defined processor implements, and the context it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, cast

from streamtopo.records import IMMUTABLE, Headers, private
from streamtopo.records.type_parameters import K2, V2, K, KIn, KOut, V, VIn, VOut
from streamtopo.settings.durations import Duration

Clock = Literal["stream_time", "wall_clock"]


class Record(NamedTuple, Generic[K, V]):
    """A record that processors get and forward. It does not change: `with_value` and so on return a new one."""

    key: K
    value: V
    timestamp: int
    headers: Headers = ()

    def private(self) -> Record[K, V]:
        """A copy that shares nothing mutable with the original."""
        key, value, timestamp, headers = self
        if type(key) in IMMUTABLE and type(value) in IMMUTABLE:
            return self
        return Record(private(key), private(value), timestamp, headers)

    def with_key(self, key: K2) -> Record[K2, V]:
        """The same record with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """The same record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """The same record with another time, in milliseconds."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """The same record with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)


class RecordMetadata(NamedTuple):
    """Where the current record came from."""

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """What a function that chooses the topic of a record can use: where the record came from, its time and headers."""

    metadata: RecordMetadata | None
    timestamp: int
    headers: Headers


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class ProcessorContext(Protocol[KIn, VIn]):
    """What a processor can use and do. Each node of each task has one.

    The type parameters are the types of the keys and values that it forwards.
    """

    application_id: str
    task_id: str

    def forward(self, record: Record[KIn, VIn], child: str | None = None) -> None:
        """Forward a record to all children, in the order they were connected, or to the child with this name."""
        ...

    def schedule(self, interval: Duration, clock: Clock, callback: Callable[[int], object]) -> Cancellable:
        """Call `callback(time)` regularly, by stream time or by the wall clock.

        After a restart, calls by stream time that `init` schedules continue. Calls that are scheduled later are lost.
        """
        ...

    def get_state_store(self, name: str) -> Any:
        """A KeyValueStore, WindowStore, SessionStore or VersionedStore, as it was declared.

        The stores in `stores=` and all global stores are available.
        """
        ...

    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record. None in `init` and in scheduled calls."""
        ...

    def current_stream_time_ms(self) -> int:
        """The stream time of the task: the largest time so far."""

    def current_system_time_ms(self) -> int:
        """The wall clock. In tests, the clock of the `Driver` or `Cluster`."""

    def commit(self) -> None:
        """Request a commit as soon as possible."""
        ...


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Override the methods that you need. Keep in a store what must survive a restart or a failed step.

    `Processor[str, Order, str, int]` gets str keys with Orders, and forwards str keys with ints.
    `Processor[str, Order]` may forward anything, or nothing.
    """

    if not TYPE_CHECKING:  # type checkers know that types may be left out; Python does from 3.13 on

        def __class_getitem__(cls, types: Any) -> Any:
            given = types if isinstance(types, tuple) else (types,)
            missing = max(len(cls.__parameters__) - len(given), 0)
            return super().__class_getitem__((*given, *[Any] * missing))

    def init(self, context: ProcessorContext[KOut, VOut], /) -> None:
        """Called once, before the first record. The context has the stores; by default it is kept as `self.context`."""
        self.context = context

    def process(self, record: Record[KIn, VIn], /) -> None:
        """Called with each record. `self.context.forward` sends records to the next nodes."""
        self.context.forward(cast(Record[KOut, VOut], record))

    def close(self) -> None:
        """Called when the task is closed, but not if the process is killed."""
        pass


class ValueTransformer(Generic[KIn, VIn, VOut]):
    """Used by `KTable.transform_values`: like a processor, but it returns the new value and cannot forward."""

    def init(self, context: ProcessorContext, /) -> None:
        """Called once, before the first value."""
        self.context = context

    def transform(self, key: KIn, value: VIn | None, /) -> VOut | None:
        """The value of the new table's row, or None for no row. `value` is None if the row was deleted."""
        return cast(VOut, value)

    def close(self) -> None:
        """Called when the task is closed, but not if the process is killed."""
        pass
