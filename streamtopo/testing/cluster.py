"""The Cluster: several workers on one log in memory. A seed decides which one works when, and what goes wrong."""

from __future__ import annotations

import os
from random import Random
from types import TracebackType
from typing import Any, Self

from streamtopo.engine.loading import Described, topology_of
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import ConfigError, StreamtopoError
from streamtopo.records import Columns, Headers, TopicPartition
from streamtopo.stores.views.key_value import Pair
from streamtopo.testing.agenda import Agenda
from streamtopo.testing.faults import NO_FAULTS, Faults
from streamtopo.testing.machines import Machines
from streamtopo.testing.processes import ClusterLog, Stage
from streamtopo.testing.schedule import Schedule
from streamtopo.testing.stores import DriverStore, store_of
from streamtopo.testing.topics import DriverRecord, DriverTopics


class Cluster:
    """Several workers of an application, in one thread. The same seed gives the same run again.

    >>> from streamtopo import StreamsBuilder
    >>> builder = StreamsBuilder("counting")
    >>> builder.stream("words", key=str, value=str).group_by_key().count(name="counts").to_stream().to("out")
    >>> with Cluster(builder, workers=3, partitions=4, seed=7) as cluster:
    ...     for _ in range(5):
    ...         cluster.send("words", "x", key="tea")
    ...     cluster.run()
    ...     cluster.read("out")
    [('tea', 1), ('tea', 2), ('tea', 3), ('tea', 4), ('tea', 5)]
    """

    __test__ = False

    def __init__(
        self,
        topology: Described | str,
        *,
        workers: int = 3,
        partitions: int = 4,
        seed: int = 0,
        faults: Faults | bool = True,
        max_steps: int = 100_000,
        **options: Any,
    ) -> None:
        """The options are those of WorkerConfig; the seed chooses absent times of commits and `chunk`."""
        if workers < 1:
            raise ConfigError(f"a cluster has at least one worker, not {workers}")
        self.topology = topology_of(topology)
        self.seed = seed
        stage = Stage(Random(seed))
        self.log = ClusterLog(stage)
        if isinstance(faults, bool):
            faults = Faults() if faults else NO_FAULTS
        self._max_steps = max_steps
        self._agenda = Agenda()
        self._topics = DriverTopics(self.topology, self.log, partitions)
        given = {"cache": 0, "max_ahead": "none", "create_topics": partitions} | options
        self._machines = Machines(self.topology, self.log, self._agenda, stage.random, given)
        self._schedule = Schedule(self._machines, self._agenda, stage, faults)
        for machine in range(workers):
            self._machines.start(machine)

    def __repr__(self) -> str:
        return f"Cluster({self.topology.application_id!r}, seed={self.seed}, {self.steps} steps, {self.now} ms)"

    # -- inputs

    @property
    def now(self) -> int:
        """The time of the cluster's clock in milliseconds; it starts at 0."""
        return self._agenda.now

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
        at: int | None = None,
    ) -> None:
        """Write one record. It appears in its partition when the clock shows `at`; by default immediately."""
        at = self.now if at is None else at
        time = at if timestamp is None else timestamp
        record = DriverRecord(topic, key, value, time, -1 if partition is None else partition, headers)
        self._append(at, *self._topics.encode(record))

    def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        at: int | None = None,
    ) -> None:
        """Write raw bytes, for example a broken record of another program."""
        self._topics.check_read(topic)
        at = self.now if at is None else at
        time = at if timestamp is None else timestamp
        self._append(at, *self._topics.place(DriverRecord(topic, key, value, time, -1)))

    def _append(self, at: int, target: TopicPartition, columns: Columns) -> None:
        if at <= self.now:
            self.log.append(target, columns)
        else:
            self._agenda.add(at, lambda: self.log.append(target, columns))

    def run(self) -> None:
        """Run until all records are sent, processed and committed, and all workers are back."""
        self._schedule.begin()
        last = self.steps + self._max_steps
        try:
            while self._schedule.turn():
                if self.steps > last:
                    raise self._endless()
        except BaseException as error:
            self._note(error)
            raise

    def advance(self, *, wall_clock_ms: int) -> None:
        """Move the clock forward, and run what is due."""
        self._agenda.add(self.now + wall_clock_ms, lambda: None)
        self.run()

    def close(self) -> None:
        """Commit and leave, worker by worker."""
        for process in list(self._machines.processes):
            self._machines.leave(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._note(error)

    # -- outputs

    def read(self, topic: str) -> list[Pair]:
        """Key and value of each record that has not been read yet."""
        return [(record.key, record.value) for record in self.records(topic)]

    def records(self, topic: str) -> list[DriverRecord]:
        """Each record that has not been read yet, with time and headers; one partition after the other."""
        return self._topics.records(topic)

    def dead_letters(self, topic: str | None = None) -> list[DriverRecord]:
        """Each dead letter that has not been read yet: key and value are bytes, headers say what happened."""
        return self._topics.dead_letters(topic)

    def store(self, name: str) -> DriverStore:
        """The rows of a store in all tasks of all workers."""
        return store_of(self.workers, self.topology, name, lambda: self.now)

    @property
    def dropped(self) -> dict[str, int]:
        """How many rows all workers have dropped so far, by reason, in committed work."""
        return dict(self._machines.dropped())

    @property
    def workers(self) -> list[Worker]:
        """The living workers."""
        return [process.worker for process in self._machines.processes]

    @property
    def steps(self) -> int:
        """The number of steps of all workers."""
        return self._schedule.steps

    @property
    def events(self) -> list[str]:
        """The faults so far, with their times."""
        return self._schedule.events

    # -- inside

    def _endless(self) -> StreamtopoError:
        left = ", ".join(f"{count} of {partition}" for partition, count in self._machines.unfinished().items())
        return StreamtopoError(
            f"the cluster has worked for {self._max_steps} steps and is not done; it still has to process and commit "
            f"{left or 'nothing, but a worker is never idle'}; give it more steps (max_steps=…), or send less"
        )

    def _note(self, error: BaseException) -> None:
        """Say in the error how to see it again, once."""
        note = f"found by seed {self.seed}: Cluster(…, seed={self.seed}) does exactly the same again"
        if not any(known.startswith(note) for known in getattr(error, "__notes__", ())):
            error.add_note("\n  ".join([f"{note}; with seeds(), set STREAMTOPO_SEED={self.seed}", *self.events]))


def seeds(count: int) -> range:
    """The seeds for a test: `count` of them, or STREAMTOPO_SEEDS of them, beginning with STREAMTOPO_SEED.

    STREAMTOPO_SEED alone is the only seed.
    """
    first, number = os.environ.get("STREAMTOPO_SEED"), os.environ.get("STREAMTOPO_SEEDS")
    start = int(first or 0)
    return range(start, start + int(number or (1 if first else count)))
