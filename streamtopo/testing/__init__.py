"""The Driver: runs a topology in memory on the real engine; time, crashes and restarts are inputs of the test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypedDict, Unpack

from streamtopo.engine.loading import Described, topology_of
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, Headers, TopicPartition
from streamtopo.serdes import BYTES, Serde
from streamtopo.settings.config import OnError, WorkerConfig
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.views import StoreView
from streamtopo.stores.views.key_value import Pair, ReadOnlyStore
from streamtopo.testing.stores import DriverStore
from streamtopo.topology import Topology
from streamtopo.topology.nodes import SinkNode


class DriverRecord(NamedTuple):
    """A record as the driver sends and reads it."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    partition: int = 0
    headers: Headers = ()


class DriverTimes(TypedDict, total=False):
    """Options of a worker that are off in a Driver, because its wall clock stands still."""

    idle_advance: Duration
    max_ahead: Duration | None
    origin_idle: Duration


class Driver:
    """Each `send` is processed completely, through all internal topics, before the call returns.

    >>> from streamtopo import StreamsBuilder
    >>> builder = StreamsBuilder("shout")
    >>> builder.stream("words", value=str).map_values(str.upper).to("shouts")
    >>> driver = Driver(builder.build())
    >>> driver.send("words", "quiet")
    >>> driver.read("shouts")
    [(None, 'QUIET')]
    """

    __test__ = False

    def __init__(
        self,
        topology: Described | str,
        *,
        partitions: int = 1,
        wall_clock_ms: int = 0,
        cache: int = 0,
        chunk: int = 10_000,
        on_error: str | OnError = OnError.FAIL,
        log: MemoryLog | None = None,
        depth_first: bool = False,
        **times: Unpack[DriverTimes],
    ) -> None:
        self.topology = topology_of(topology)
        self.log = log or MemoryLog()
        self.wall_clock_ms = wall_clock_ms
        self._partitions = partitions
        self._config = WorkerConfig(
            commit_interval=1 << 60,
            commit_pause=0,
            cache=cache,
            chunk=chunk,
            on_error=OnError(on_error),
            idle_advance=milliseconds(times.get("idle_advance", 0)),
            max_ahead=None if (ahead := times.get("max_ahead")) is None else milliseconds(ahead),
            origin_idle=milliseconds(times.get("origin_idle", 0)),
            create_topics=partitions,
        )
        self._depth_first = depth_first
        self._stores: dict[tuple[str | int, ...], MemoryStore] = {}
        self._read: dict[TopicPartition, int] = {}
        self._serdes = _serdes(self.topology)
        for topic in self._serdes:
            if topic not in map(self.topology.topic_of, self.topology.repartitions):
                self._create(topic)
        self._crashed = False
        self.worker = self._start()
        self.run()

    # -- inputs

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Write one record, encoded as the topology declares the topic, and process it completely."""
        time = self.wall_clock_ms if timestamp is None else timestamp
        self.send_all([DriverRecord(topic, key, value, time, -1 if partition is None else partition, headers)])

    def send_all(self, records: Iterable[DriverRecord]) -> None:
        """Write all records before any is processed; then timestamps decide the order between topics."""
        for topic, key, value, timestamp, partition, headers in records:
            self._check_known(topic)
            key_serde, value_serde = self._serdes_of(topic)
            key_bytes, value_bytes = key_serde.encode_column([key])[0], value_serde.encode_column([value])[0]
            self._append(topic, key_bytes, value_bytes, timestamp, headers, partition)
        self.run()

    def send_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp: int | None = None
    ) -> None:
        """Write raw bytes, for example a broken record of another program."""
        self._check_known(topic)
        self._append(topic, key, value, self.wall_clock_ms if timestamp is None else timestamp, (), -1)
        self.run()

    def advance(self, *, wall_clock_ms: int) -> None:
        """Move the wall clock forward, and run what is due."""
        self.wall_clock_ms += wall_clock_ms
        if not self._crashed:
            self.run()

    def crash(self) -> None:
        """Lose the worker with its memory and the stores on its disk; the log remains."""
        self.worker.member.leave()
        self._stores = {}
        self._crashed = True

    def restart(self) -> None:
        """Start a new worker on the same log, with the stores of the last one."""
        if not self._crashed:
            self.worker.close()
        self._crashed = False
        self.worker = self._start()
        self.run()

    def close(self) -> None:
        """Close processors and stores; only needed if a test checks that."""
        if not self._crashed:
            self.worker.close()

    def run(self) -> None:
        """Process until nothing is left to do."""
        while self.worker.run_once():
            pass

    # -- outputs

    def read(self, topic: str) -> list[Pair]:
        """Key and value of each record that has not been read yet."""
        return [(record.key, record.value) for record in self.records(topic)]

    def records(self, topic: str) -> list[DriverRecord]:
        """Each record that has not been read yet, with time and headers; partition by partition."""
        if topic not in self.log.topics():
            known = ", ".join(sorted(self.log.topics()))
            raise StreamtopoError(f'nothing writes topic "{topic}"; the topics so far are {known}')
        key, value = self._serdes_of(topic)
        return [
            DriverRecord(topic, key.decode_column([k])[0], value.decode_column([v])[0], time, part.partition, headers)
            for part, columns in self._unread(topic)
            for k, v, time, headers in zip(
                columns.keys,
                columns.values,
                columns.timestamps,
                columns.headers or [()] * len(columns.keys),
                strict=True,
            )
        ]

    def store(self, name: str) -> DriverStore:
        """The rows of a store in all tasks; rows that are put here are committed at once."""
        if name not in self.topology.stores:
            known = ", ".join(sorted(self.topology.stores)) or "none"
            raise StreamtopoError(f'there is no store "{name}"; this topology has {known}')
        return DriverStore(self.topology.stores[name], lambda: self._views(name), lambda: self.worker.commit())

    def dropped(self) -> dict[str, int]:
        """How many rows were dropped, by reason, since the last restart."""
        return self.worker.metrics().dropped

    # -- inside

    def _views(self, name: str) -> list[StoreView]:
        if name in self.topology.global_stores:
            return [ReadOnlyStore(self.worker.globals.states[name], lambda: 0)]
        tasks = (task for _, task in sorted(self.worker.tasks.items()))
        return [task.context.store_view(name, lambda: self.wall_clock_ms) for task in tasks if name in task.states]

    def _start(self) -> Worker:
        return Worker(
            self.topology,
            self.log,
            self._open_store,
            now=lambda: self.wall_clock_ms,
            config=self._config,
            depth_first=self._depth_first,
        )

    def _unread(self, topic: str) -> Iterator[tuple[TopicPartition, Columns]]:
        for partition in range(self.log.topics()[topic].partitions):
            part = TopicPartition(topic, partition)
            batch = self.log.read(part, self._read.get(part, self.log.start(part)), 1 << 60)
            self._read[part] = batch.next_offset
            yield part, batch.columns

    def _append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int,
    ) -> None:
        if self._crashed:
            raise StreamtopoError("the driver has crashed; call restart() first")
        self._create(topic)
        if partition < 0:
            (inner,) = self._serdes_of(topic)[0].inner_keys([key])
            partition = partition_of(inner, self.log.topics()[topic].partitions)
        columns = Columns([key], [value], [timestamp], [headers] if headers else None)
        self.log.append(TopicPartition(topic, partition), columns)

    def _check_known(self, topic: str) -> None:
        sources = self.topology.sources
        if topic not in self._serdes and not any(source.matches(topic) for source in sources):
            known = {name for source in sources for name in source.topics} - self.topology.repartitions.keys()
            patterns = {f"all that match {source.pattern.pattern}" for source in sources if source.pattern}
            reads = ", ".join(sorted(known) + sorted(patterns))
            raise StreamtopoError(f'nothing reads topic "{topic}"; this topology reads {reads}')

    def _create(self, topic: str) -> None:
        if topic not in self.log.topics():
            self.log.create(Topic(topic, self._partitions))

    def _open_store(self, stores: tuple[StoreSpec, ...], partition: int) -> MemoryStore:
        return self._stores.setdefault(
            (*(spec.name for spec in stores), partition), MemoryStore(now=lambda: self.wall_clock_ms)
        )

    def _serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        if topic not in self._serdes:
            matching = (source for source in self.topology.sources if source.matches(topic))
            self._serdes[topic] = next(((source.key, source.value) for source in matching), (BYTES, BYTES))
        return self._serdes[topic]


def _serdes(topology: Topology) -> dict[str, tuple[Serde, Serde]]:
    """The serdes of each topic that the topology names; those of sources come before those of sinks."""
    sinks = {
        topology.topic_of(sink.topic): (sink.key, sink.value)
        for sink in topology.sinks
        if isinstance(sink, SinkNode) and isinstance(sink.topic, str)
    }
    sources = {
        topology.topic_of(topic): (source.key, source.value) for source in topology.sources for topic in source.topics
    }
    return sinks | sources
