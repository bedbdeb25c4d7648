"""Rows of stores while no worker is running: read from the disk, and brought up to date from the changelogs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from streamtopo.engine.assignment.global_tasks import GlobalTasks
from streamtopo.engine.assignment.restoration import Restoration
from streamtopo.engine.failures.left_out import LeftOut
from streamtopo.engine.plan import Plan
from streamtopo.engine.task.ahead import CLOCK_SET, by_source
from streamtopo.engine.task.clocks import latest_of, time_of
from streamtopo.engine.task.metadata import clocks_in
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.errors import FailedRecord, StepError
from streamtopo.hosting.queries.scanning import RowIterator, ScanBounds, StorePart, StoreTimes, rows_in
from streamtopo.logs import Log
from streamtopo.records import Position, TopicPartition
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.rows.layout import prefix_of
from streamtopo.topology import Topology
from streamtopo.wall_clock import wall_clock

logger = logging.getLogger("streamtopo")

_RECORDS_PER_STEP = 10_000


def _skip(failed: FailedRecord) -> LeftOut:
    logger.warning("skipped: %s", StepError(failed))
    return LeftOut(failed.offset, None)


class OfflineRows:
    def __init__(
        self, topology: Topology, plan: Plan, log: Log, open_store: Callable[[tuple[StoreSpec, ...], int], Store]
    ) -> None:
        self._topology = topology
        self._plan = plan
        self._log = log
        self._open_store = open_store
        self._stores: dict[TaskId, Store] = {}
        self._positions: Mapping[TopicPartition, Position] | None = None

    def get(self, part: StorePart, key: bytes) -> bytes | None:
        rows = (self._store(task).get_many([prefix_of(part.store) + key])[0] for task in self._tasks(part))
        return next((row for row in rows if row is not None), None)

    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator:
        spec = next(spec for spec in self._specs(part.task) if spec.name == part.store)
        time = self.time(part)
        reached = max(time, self._largest(latest_of, part))
        return rows_in(self._store(part.task), spec, bounds, StoreTimes(time, reached))

    def time(self, part: StorePart) -> int:
        """Return the time that the last worker committed with its positions."""
        if self._is_global(part.task):
            return self._globals.tasks[part.task].progress.committed.time_of(part.store)
        return self._largest(time_of, part)

    def _largest(self, clock_of: Callable[[str, Mapping[str, int]], int], part: StorePart) -> int:
        if self._positions is None:
            state = self._log.group(self._topology.application_id)
            self._positions = {} if state is None else state.positions
        topics = self._plan.part(part.task.subtopology).topics
        found = (self._positions.get(TopicPartition(topic, part.task.partition)) for topic in topics)
        return max((clock_of(part.store, clocks_in(one.metadata)) for one in found if one), default=-1)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _specs(self, task: TaskId) -> tuple[StoreSpec, ...]:
        return self._plan.part(task.subtopology).subtopology.stores

    def _tasks(self, part: StorePart) -> Iterator[TaskId]:
        """Yield the task of the key's hash, and then the others, unless only this one may be read."""
        first = part.task
        yield first
        count = 0 if part.only_here else self._plan.part(first.subtopology).tasks
        yield from (task for number in range(count) if (task := first._replace(partition=number)) != first)

    def _is_global(self, task: TaskId) -> bool:
        return any(part.number == task.subtopology for part in self._plan.everywhere)

    @cached_property
    def _globals(self) -> GlobalTasks:
        """The global stores, read from their topics as in each worker."""
        counts = {name: topic.partitions for name, topic in self._log.topics().items()}
        ahead = by_source(self._topology, WorkerConfig.max_ahead)
        options = TaskOptions(wall_clock, request_commit=lambda: None, ahead=ahead, clock_set=CLOCK_SET)
        found = GlobalTasks(self._topology, self._log, counts.__getitem__, options, WorkerConfig(commit_pause=0))
        while not found.loaded:
            found.update(_skip)
        return found

    def _store(self, task: TaskId) -> Store:
        if self._is_global(task):
            return self._globals.tasks[task].store
        if task not in self._stores:
            specs = self._specs(task)
            store = self._stores[task] = self._open_store(specs, task.partition)
            topics = self._log.topics()
            for spec in specs:
                if spec.logged and self._topology.changelog_of(spec.name) in topics:
                    changelog = TopicPartition(self._topology.changelog_of(spec.name), task.partition)
                    restoration = Restoration(spec, changelog, self._log, store, wall_clock)
                    while restoration.step(_RECORDS_PER_STEP):
                        pass
        return self._stores[task]
