"""The tasks of one worker: opened, restored and closed as the group assigns their partitions."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from streamtopo.engine.assignment.marked_topics import MarkedTopics
from streamtopo.engine.assignment.restoration import Restoration, claim
from streamtopo.engine.metrics import RestoreProgress
from streamtopo.engine.plan import Plan
from streamtopo.engine.program.outbox import Outbox
from streamtopo.engine.task.inputs import Input
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.task import Task
from streamtopo.engine.topics.topics import Topics
from streamtopo.errors import StoreInUse
from streamtopo.logs import Log, Member
from streamtopo.records import Position, TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.backends import open_files
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

PATIENCE = 10.0
"""Seconds to wait for a store that another worker still has, before a warning."""
_BETWEEN_WARNINGS = 60.0

OpenStore = Callable[[tuple[StoreSpec, ...], int], Store]
"""Opens the storage for the stores of a task on a partition; StoreInUse if the last owner still has it."""


class Waiting(NamedTuple):
    """Waiting for the store of a task, which another worker has: since when, and when to warn about it."""

    since: float
    warn_at: float


class Opening(NamedTuple):
    """A task that is being restored, with its positions, which were read before the ends of its changelogs."""

    task: Task
    positions: Mapping[TopicPartition, Position]
    stores: list[Restoration]


class Tasks:
    def __init__(
        self,
        topology: Topology,
        log: Log,
        topics: Topics,
        open_store: OpenStore,
        options: TaskOptions,
        *,
        address: str = "",
        exactly_once: bool = True,
    ) -> None:
        self.ready: dict[TaskId, Task] = {}
        self.opening: dict[TaskId, Opening] = {}
        self.dropped_before = Counter[str]()
        """How many rows were dropped by tasks that are closed now, by reason."""
        self.ahead_before = 0
        """How many of their records were too far ahead of the wall clock."""
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._most_missing = 0
        self._in_use: dict[TaskId, Waiting] = {}
        self._due: frozenset[TaskId] | None = None
        """The tasks that the group assigns to this worker; None until there was an assignment."""
        self._topology = topology
        self._log = log
        self._topics = topics
        self._open_store = open_store
        self._options = options
        self.member: Member = log.join(
            topology.application_id, topics.plan.topics, address=address, exactly_once=exactly_once
        )
        self.outbox = Outbox(self.member.send, topics.partitions)
        self.marked = MarkedTopics(topology, topics.plan, waiting=options.origin_idle > 0)
        """The topics in which tasks announce their time."""

    @property
    def plan(self) -> Plan:
        return self._topics.plan

    def follow_assignment(self, commit: Callable[[], object]) -> None:
        """Close the tasks that the group took away, after a last commit, and start to open new ones.

        The assignment is read again before each task: opening one can take long enough to lose others.
        """
        changed: Collection[str] = ()
        if self._topics.refresh():
            self.member.subscribe(self._topics.plan.topics)
            before = self.marked
            self.marked = MarkedTopics(self._topology, self._topics.plan, waiting=self._options.origin_idle > 0)
            changed = self.marked.different(before)
        in_use: dict[TaskId, Waiting] = {}
        placed = self.member.placed
        while True:
            wanted = self._give_back(commit, changed)
            changed = ()
            self._due = frozenset(wanted) if placed else None
            missing = wanted.keys() - self.ready.keys() - self.opening.keys() - in_use.keys()
            if not missing:
                break
            self._warn(missing)
            id = min(missing)
            committed = self.member.committed(wanted[id])
            if committed is None:
                break  # the other tasks do not wait; the next turn asks again
            try:
                self.opening[id] = self._begin(id, wanted[id], committed)
            except StoreInUse as error:
                in_use[id] = self._waiting(id, error)
        self._in_use = in_use

    def _warn(self, missing: Collection[TaskId]) -> None:
        """Warn before tasks are opened, as that takes time."""
        if len(missing) <= self._most_missing:
            return
        self._most_missing = len(missing)
        on_disk = {part.number for part in self.plan.subtopologies if not all(spec.in_memory for spec in part.stores)}
        if reason := open_files.lacking(sum(id.subtopology in on_disk for id in missing)):
            logger.warning("%s", reason)

    def _waiting(self, id: TaskId, error: StoreInUse) -> Waiting:
        """The owner has lost the task, but may not know it yet, because a step takes long: wait for it."""
        now = time.monotonic()
        waiting = self._in_use.get(id)
        if waiting is None:
            logger.info("task %s waits for its state: %s", id, error)
            return Waiting(now, now + PATIENCE)
        if now < waiting.warn_at:
            return waiting
        seconds = now - waiting.since
        logger.warning("task %s has waited for its state for %.0f s; the other tasks continue. %s", id, seconds, error)
        return waiting._replace(warn_at=now + _BETWEEN_WARNINGS)

    def _give_back(
        self, commit: Callable[[], object], changed: Collection[str]
    ) -> dict[TaskId, frozenset[TopicPartition]]:
        """Close and release what was taken away; return the tasks that this worker should have.

        Tasks that read a topic which has changed are closed too: they know other origins of it, and are opened again.
        """
        assigned = self.member.assignment()
        wanted = self._wanted(assigned)
        held = {id: frozenset(task.inputs) for id, task in self.ready.items()}
        held |= {id: frozenset(opening.positions) for id, opening in self.opening.items()}
        revoked = [
            id
            for id, partitions in held.items()
            if wanted.get(id) != partitions or any(one.topic in changed for one in partitions)
        ]
        if revoked:
            self.check_topics()
            commit()
            for id in revoked:
                self._close(id)
        if lost := self._assigned - assigned:
            self.member.release(lost)
        self._assigned = assigned
        return wanted

    def restore(self, limit: int) -> bool:
        """Restore a slice of each store; a task that is ready does not wait for others."""
        restored = False
        for id, (task, positions, stores) in list(self.opening.items()):
            for store in stores:
                restored |= store.step(limit) > 0
            if all(store.done for store in stores):
                alone = self.marked.alone(task.id.subtopology)
                task.open(positions, lambda topic: self.marked.origins.get(topic, ()), alone=alone)
                self.ready[id] = task
                del self.opening[id]  # only now: other threads look for the task in both
                for partition, position in positions.items():
                    self.member.seek(partition, position.offset)
                restored = True
        return restored

    def close_readers(self, partitions: frozenset[TopicPartition]) -> None:
        """Close every task that reads one of these partitions; its work is committed."""
        held = {id: partitions.intersection(task.inputs) for id, task in self.ready.items()}
        held |= {id: partitions.intersection(opening.positions) for id, opening in self.opening.items()}
        for id in [id for id, common in held.items() if common]:
            self._close(id)

    def check_topics(self) -> None:
        """Raise an error if a topic that is needed was deleted."""
        self._topics.check()

    def partitions(self, topic: str) -> int:
        return self._topics.partitions(topic)

    def partitions_of(self, id: TaskId) -> frozenset[TopicPartition]:
        """Those that a task reads, also one of another worker."""
        read = (TopicPartition(topic, id.partition) for topic in self.plan.part(id.subtopology).topics)
        return frozenset(one for one in read if one.partition < self._topics.partitions(one.topic))

    def partitions_before(self, id: TaskId) -> frozenset[TopicPartition]:
        """Those that a task reads, also one of another worker; and those of the tasks which write them, and so on."""
        read = set(self.partitions_of(id))
        for number in self.marked.before(id.subtopology):
            part = self.plan.part(number)
            read |= {TopicPartition(topic, partition) for topic in part.topics for partition in range(part.tasks)}
        return frozenset(one for one in read if one.partition < self._topics.partitions(one.topic))

    def inputs(self) -> list[Input]:
        """The inputs of all tasks that are ready."""
        return [one for task in self.ready.values() for one in task.inputs.values()]

    def reading(self, partition: TopicPartition) -> Task | None:
        return next((task for task in self.ready.values() if partition in task.inputs), None)

    def restoring(self) -> tuple[RestoreProgress, ...]:
        return tuple(
            RestoreProgress(store.spec.name, id.partition, store.next - store.start, store.end - store.start)
            for id, opening in self.opening.items()
            for store in opening.stores
            if not store.done
        )

    def lag(self) -> int | None:
        """Records in the topics that were not processed yet; None while that is not known for every task."""
        inputs = self.inputs()
        ends = self.member.ends() if inputs else {}
        if self._due is None or not self._due <= self.ready.keys():
            return None
        if not all(self.member.knows_end(one.partition) for one in inputs if one.partition in ends):
            return None
        return sum(ends.get(one.partition, one.fetched) - one.fetched + one.waiting.size for one in inputs)

    def drop(self, tasks: Iterable[Task]) -> None:
        """Close tasks whose work or store cannot be trusted. They are restored from the log and opened again."""
        for task in list(tasks):
            self._close(task.id)

    def close(self) -> None:
        try:
            for id in [*self.ready, *self.opening]:
                self._close(id)
        finally:
            self.member.leave()

    def _wanted(self, assigned: frozenset[TopicPartition]) -> dict[TaskId, frozenset[TopicPartition]]:
        """The tasks whose partitions are all assigned to this worker."""
        wanted = {}
        plan = self._topics.plan
        for part, topics, tasks in zip(plan.subtopologies, plan.topics, plan.tasks, strict=True):
            for partition in range(tasks):
                read = {TopicPartition(name, partition) for name in topics if partition < self._topics.partitions(name)}
                if read and read <= assigned:
                    wanted[TaskId(part.number, partition)] = frozenset(read)
        return wanted

    def _begin(
        self, id: TaskId, partitions: frozenset[TopicPartition], committed: Mapping[TopicPartition, Position]
    ) -> Opening:
        subtopology = next(part for part in self._topics.plan.subtopologies if part.number == id.subtopology)
        store = self._open_store(subtopology.stores, id.partition)
        try:
            task = Task(id, self._topology, subtopology, store, self.outbox, self._options)
            positions = {part: committed.get(part) or Position(self._log.start(part)) for part in partitions}
            stores = [
                Restoration(spec, task.changelog(spec.name), self._log, store, self._options.wall_clock)
                for spec in subtopology.stores
                if spec.logged
            ]
            for spec in subtopology.stores:
                if not spec.logged:
                    claim(spec, self._log, store, self._topics.emptied(spec.name))
        except BaseException:
            store.close()
            raise
        return Opening(task, positions, stores)

    def _close(self, id: TaskId) -> None:
        task = self.opening.pop(id).task if id in self.opening else self.ready.pop(id, None)
        if task is not None:
            self.dropped_before.update(task.progress.dropped_for_good())
            self.ahead_before += task.horizons.ahead.beyond
            task.close()
