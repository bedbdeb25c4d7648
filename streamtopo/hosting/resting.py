"""Stores while no worker is at work: opened where workers keep them, and brought up to their changelogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from streamtopo.engine.clocks import time_of
from streamtopo.engine.plan import Plan
from streamtopo.engine.restore import Restoration
from streamtopo.engine.running import wall_clock
from streamtopo.engine.task import TaskId, clocks_in
from streamtopo.hosting.spans import Place, Rows, Span, Times, rows_in
from streamtopo.logs import Log
from streamtopo.records import Position, TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.layout import prefix_of
from streamtopo.topology import Topology

_SLICE = 10_000


class Resting:
    def __init__(
        self, topology: Topology, plan: Plan, log: Log, open_store: Callable[[tuple[StoreSpec, ...], int], Store]
    ) -> None:
        self._topology = topology
        self._plan = plan
        self._log = log
        self._open_store = open_store
        self._opened: dict[TaskId, Store] = {}
        self._positions: Mapping[TopicPartition, Position] | None = None

    def get(self, place: Place, key: bytes) -> bytes | None:
        rows = (self._store(task).get_many([prefix_of(place.store) + key])[0] for task in self._tasks(place))
        return next((row for row in rows if row is not None), None)

    def scan(self, place: Place, span: Span) -> Rows:
        spec = next(spec for spec in self._specs(place.task) if spec.name == place.store)
        time = self.time(place)
        return rows_in(self._store(place.task), spec, span, Times(time, time))

    def time(self, place: Place) -> int:
        """As the last worker that was at work on it committed it, with its positions."""
        if self._positions is None:
            state = self._log.group(self._topology.application_id)
            self._positions = {} if state is None else state.positions
        topics = self._plan.topics[place.task.subtopology]
        parts = (self._positions.get(TopicPartition(topic, place.task.partition)) for topic in topics)
        return max((time_of(place.store, clocks_in(part.metadata)) for part in parts if part), default=-1)

    def close(self) -> None:
        for store in self._opened.values():
            store.close()

    def _specs(self, task: TaskId) -> tuple[StoreSpec, ...]:
        return self._plan.subtopologies[task.subtopology].stores

    def _tasks(self, place: Place) -> Iterator[TaskId]:
        """The one that a key's hash says, and then the others, unless that one is to be asked alone."""
        first = place.task
        yield first
        count = 0 if place.alone else self._plan.tasks[first.subtopology]
        yield from (task for number in range(count) if (task := first._replace(partition=number)) != first)

    def _store(self, task: TaskId) -> Store:
        if task not in self._opened:
            specs = self._specs(task)
            store = self._opened[task] = self._open_store(specs, task.partition)
            there = self._log.topics()
            for spec in specs:
                if spec.logged and self._topology.changelog_of(spec.name) in there:
                    changelog = TopicPartition(self._topology.changelog_of(spec.name), task.partition)
                    restoration = Restoration(spec, changelog, self._log, store, wall_clock)
                    while restoration.step(_SLICE):
                        pass
        return self._opened[task]
