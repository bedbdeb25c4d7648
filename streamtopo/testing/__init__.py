"""The Driver: runs a topology in memory on the real engine; time, crashes and restarts are inputs of the test.

The Cluster runs several workers; a seed decides about their schedule and their faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from streamtopo.engine.loading import Described, topology_of
from streamtopo.engine.tracebacks import without_engine
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import StepError, StreamtopoError
from streamtopo.hints import hinted, no_such_name
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, Headers, TopicPartition
from streamtopo.settings.config import WorkerConfig
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.settings.on_error import OnError, policy_of
from streamtopo.settings.sizes import size
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.views.key_value import Pair
from streamtopo.testing.cluster import Cluster, seeds
from streamtopo.testing.faults import Faults
from streamtopo.testing.steady import SteadyClock
from streamtopo.testing.stores import DriverStore, store_of
from streamtopo.testing.topics import DriverRecord, DriverTopics

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise no_such_name(__name__, name)


__all__ = ["Cluster", "Driver", "DriverRecord", "DriverStore", "Faults", "seeds"]


class DriverTimes(TypedDict, total=False):
    """Options of a worker that are off in a Driver, because its wall clock stands still."""

    idle_advance: Duration
    max_ahead: Duration | None
    origin_idle: Duration
    max_task_idle: Duration


@hinted
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
        cache: int | str = 0,
        chunk: int = 10_000,
        on_error: OnError | None = None,
        log: MemoryLog | None = None,
        depth_first: bool = False,
        **times: Unpack[DriverTimes],
    ) -> None:
        self.topology = topology_of(topology)
        self.log = log or MemoryLog()
        self.wall_clock_ms = wall_clock_ms
        self._steady = SteadyClock(lambda: self.wall_clock_ms)
        self._config = WorkerConfig(
            commit_interval=1 << 60,
            commit_pause=0,
            cache=size(cache),
            chunk=chunk,
            on_error=None if on_error is None else policy_of(on_error),
            idle_advance=milliseconds(times.get("idle_advance", 0)),
            max_ahead=None if (ahead := times.get("max_ahead")) is None else milliseconds(ahead),
            origin_idle=milliseconds(times.get("origin_idle", 0)),
            max_task_idle=milliseconds(times.get("max_task_idle", 0)),
            create_topics=partitions,
        )
        self._depth_first = depth_first
        self._stores: dict[tuple[str | int, ...], MemoryStore] = {}
        self._topics = DriverTopics(self.topology, self.log, partitions)
        self._crashed = False
        self.worker = self._start()
        self.run()

    def __repr__(self) -> str:
        state = "crashed" if self._crashed else f"wall clock at {self.wall_clock_ms} ms"
        return f"Driver({self.topology!r}, {state})"

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
        self.send_all([DriverRecord(topic, key, value, time, partition, headers)])

    def send_all(self, records: Iterable[DriverRecord]) -> None:
        """Write all records before any is processed; then timestamps decide the order between topics."""
        for record in records:
            self._append_at(*self._topics.encode(DriverRecord(*record)))
        self.run()

    def send_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp: int | None = None
    ) -> None:
        """Write raw bytes, for example a broken record of another program."""
        self._topics.check_read(topic)
        self._append(topic, key, value, self.wall_clock_ms if timestamp is None else timestamp, (), None)
        self.run()

    def advance(self, *, wall_clock_ms: int) -> None:
        """Move the wall clock, and run what is due. A negative number sets it back."""
        self.wall_clock_ms += wall_clock_ms
        if not self._crashed:
            self.run()

    def crash(self) -> None:
        """Lose the worker, its memory and the stores on its disk. The log remains."""
        self.worker.member.leave()
        self._stores = {}
        self._crashed = True

    def restart(self) -> None:
        """Start a new worker on the same log, with the stores of the last worker, if there are any."""
        if not self._crashed:
            self.worker.close()
        self._crashed = False
        self.worker = self._start()
        self.run()

    def close(self) -> None:
        """Close processors and stores. Only needed if a test checks this."""
        if not self._crashed:
            self.worker.close()

    def run(self) -> None:
        """Process until nothing is left to do."""
        try:
            while self.worker.run_once():
                pass
        except StepError as error:
            raise without_engine(error)  # noqa: B904  it is the same error

    # -- outputs

    def read(self, topic: str) -> list[Pair]:
        """Key and value of each record that has not been read yet."""
        return [(record.key, record.value) for record in self.records(topic)]

    def records(self, topic: str) -> list[DriverRecord]:
        """Each record that has not been read yet, with time and headers; one partition after the other."""
        return self._topics.records(topic)

    def store(self, name: str) -> DriverStore:
        """The rows of a store in all tasks. Rows that you put are committed immediately."""
        return store_of([self.worker], self.topology, name, lambda: self.wall_clock_ms)

    def dead_letters(self, topic: str | None = None) -> list[DriverRecord]:
        """Each dead letter that has not been read yet: key and value are bytes, headers say what happened."""
        return self._topics.dead_letters(topic)

    def dropped(self) -> dict[str, int]:
        """How many rows were dropped, by reason, since the last restart."""
        return self.worker.metrics().dropped

    # -- inside

    def _start(self) -> Worker:
        return Worker(
            self.topology,
            self.log,
            self._open_store,
            now=lambda: self.wall_clock_ms,
            steady=self._steady,
            config=self._config,
            depth_first=self._depth_first,
        )

    def _append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        self._append_at(*self._topics.place(DriverRecord(topic, key, value, timestamp, partition, headers)))

    def _append_at(self, target: TopicPartition, columns: Columns) -> None:
        if self._crashed:
            raise StreamtopoError("the driver has crashed; call restart() first")
        self.log.append(target, columns)

    def _open_store(self, stores: tuple[StoreSpec, ...], partition: int) -> MemoryStore:
        return self._stores.setdefault(
            (*(spec.name for spec in stores), partition), MemoryStore(now=lambda: self.wall_clock_ms)
        )
