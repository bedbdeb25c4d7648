"""Stores while no worker is at work: opened where workers keep them, and brought up to their changelogs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from streamtopo.config import WorkerConfig
from streamtopo.engine.ahead import CLOCK_SET, by_source
from streamtopo.engine.clocks import latest_of, time_of
from streamtopo.engine.globals import Globals
from streamtopo.engine.plan import Plan
from streamtopo.engine.restore import Restoration
from streamtopo.engine.running import wall_clock
from streamtopo.engine.task import Options, TaskId, clocks_in
from streamtopo.hosting.spans import Place, Rows, Span, Times, rows_in
from streamtopo.logs import Log
from streamtopo.records import Position, TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.layout import prefix_of
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

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
        reached = max(time, self._largest(latest_of, place))
        return rows_in(self._store(place.task), spec, span, Times(time, reached))

    def time(self, place: Place) -> int:
        """As the last worker that was at work on it committed it, with its positions."""
        if self._is_global(place.task):
            return self._globals.tasks[place.task].committed_time_of(place.store)
        return self._largest(time_of, place)

    def _largest(self, among: Callable[[str, Mapping[str, int]], int], place: Place) -> int:
        if self._positions is None:
            state = self._log.group(self._topology.application_id)
            self._positions = {} if state is None else state.positions
        topics = self._plan.part(place.task.subtopology).topics
        parts = (self._positions.get(TopicPartition(topic, place.task.partition)) for topic in topics)
        return max((among(place.store, clocks_in(part.metadata)) for part in parts if part), default=-1)

    def close(self) -> None:
        for store in self._opened.values():
            store.close()

    def _specs(self, task: TaskId) -> tuple[StoreSpec, ...]:
        return self._plan.part(task.subtopology).subtopology.stores

    def _tasks(self, place: Place) -> Iterator[TaskId]:
        """The one that a key's hash says, and then the others, unless that one is to be asked alone."""
        first = place.task
        yield first
        count = 0 if place.alone else self._plan.part(first.subtopology).tasks
        yield from (task for number in range(count) if (task := first._replace(partition=number)) != first)

    def _is_global(self, task: TaskId) -> bool:
        return any(part.number == task.subtopology for part in self._plan.everywhere)

    @cached_property
    def _globals(self) -> Globals:
        """Read from their topics, as each worker does."""
        counts = {name: topic.partitions for name, topic in self._log.topics().items()}
        ahead = by_source(self._topology, WorkerConfig.max_ahead)
        options = Options(wall_clock, request_commit=lambda: None, ahead=ahead, clock_set=CLOCK_SET)
        found = Globals(self._topology, self._log, counts.__getitem__, options, WorkerConfig(commit_pause=0))
        while not found.loaded:
            found.update(lambda failure: logger.warning("skipped: %s", failure))
        return found

    def _store(self, task: TaskId) -> Store:
        if self._is_global(task):
            return self._globals.tasks[task].store
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
