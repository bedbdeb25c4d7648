"""The Processor API: what a user's own processor implements, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from streamtopo.durations import Duration
from streamtopo.records import IMMUTABLE, Headers, private

Clock = Literal["stream_time", "wall_clock"]


class Record(NamedTuple):
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()

    def private(self) -> Record:
        """The same, sharing nothing that anybody could change."""
        key, value, timestamp, headers = self
        if type(key) in IMMUTABLE and type(value) in IMMUTABLE:
            return self
        return Record(private(key), private(value), timestamp, headers)

    def with_key(self, key: Any) -> Record:
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record:
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record:
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record:
        return Record(self.key, self.value, self.timestamp, headers)


class RecordMetadata(NamedTuple):
    """Where the record being processed came from."""

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """What a function that picks a topic per record may ask: where the record came from, and what came with it."""

    metadata: RecordMetadata | None
    timestamp: int
    headers: Headers


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class ProcessorContext(Protocol):
    """A processor's way to the rest: made for one node of one task."""

    application_id: str
    task_id: str

    def forward(self, record: Record, child: str | None = None) -> None:
        """Hand a record to all children, in the order they were connected, or to the one named."""
        ...

    def schedule(self, interval: Duration, clock: Clock, callback: Callable[[int], object]) -> Cancellable:
        """Call back with the time whenever `interval` has passed on stream time or the wall clock.

        What `init` schedules on stream time goes on after a restart where it was; what is scheduled later is lost then.
        """
        ...

    def get_state_store(self, name: str) -> Any:
        """A KeyValueStore, WindowStore, SessionStore or VersionedStore, as the store was described.

        There are those named in `stores=`, and all global ones.
        """
        ...

    def record_metadata(self) -> RecordMetadata | None:
        """None where no record is being processed: in `init` and in punctuations."""
        ...

    def current_stream_time_ms(self) -> int: ...

    def current_system_time_ms(self) -> int: ...

    def commit(self) -> None:
        """Ask for a commit soon."""
        ...


class Processor:
    """Override what you need. What must outlive a restart, or a step that raised, belongs into a store."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record)

    def close(self) -> None:
        pass


class ValueTransformer:
    """What `KTable.transform_values` runs: like a processor, but it returns the new value, and forwards nothing."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        """The value of the new table's row, or None for no row; `value` is None where there is no row."""
        return value

    def close(self) -> None:
        pass
