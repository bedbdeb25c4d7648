"""The tasks of one worker: opened, restored and closed as the group assigns their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from streamtopo.engine.metrics import Restoring
from streamtopo.engine.outbox import Outbox
from streamtopo.engine.plan import Plan
from streamtopo.engine.restore import Restoration
from streamtopo.engine.task import Options, Task, TaskId
from streamtopo.engine.topics import Topics
from streamtopo.logs import Log, Member
from streamtopo.records import Position, TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.topology import Topology

OpenStore = Callable[[tuple[StoreSpec, ...], int], Store]
"""Opens what is behind the stores of a task on a partition."""


class Opening(NamedTuple):
    """A task that is being restored, with its positions, which were read before its changelogs' ends were."""

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
        options: Options,
        address: str = "",
    ) -> None:
        self.ready: dict[TaskId, Task] = {}
        self.opening: dict[TaskId, Opening] = {}
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._topology = topology
        self._log = log
        self._topics = topics
        self._open_store = open_store
        self._options = options
        self.member: Member = log.join(topology.application_id, topics.plan.topics, address)
        self.outbox = Outbox(self.member.send, topics.partitions)

    @property
    def plan(self) -> Plan:
        return self._topics.plan

    def follow_assignment(self, commit: Callable[[], object]) -> None:
        """Close what the group took away, after a last commit, and begin to open what it gave."""
        if self._topics.refresh():
            self.member.subscribe(self._topics.plan.topics)
        assigned = self.member.assignment()
        wanted = self._wanted(assigned)
        held = {id: frozenset(task.inputs) for id, task in self.ready.items()}
        held |= {id: frozenset(opening.positions) for id, opening in self.opening.items()}
        revoked = [id for id, partitions in held.items() if wanted.get(id) != partitions]
        if revoked:
            self.check_topics()
            commit()
            for id in revoked:
                self._close(id)
        if lost := self._assigned - assigned:
            self.member.release(lost)
        self._assigned = assigned
        for id in wanted.keys() - self.ready.keys() - self.opening.keys():
            self.opening[id] = self._begin(id, wanted[id])

    def restore(self, limit: int) -> bool:
        """One slice of each store that is behind; tasks that are ready do not wait for others."""
        restored = False
        for id, (task, positions, stores) in list(self.opening.items()):
            for store in stores:
                restored |= store.step(limit) > 0
            if all(store.done for store in stores):
                task.open(positions)
                self.ready[id] = task
                del self.opening[id]  # only now, for those who look on from other threads
                for partition, position in positions.items():
                    self.member.seek(partition, position.offset)
                restored = True
        return restored

    def check_topics(self) -> None:
        """An error if one that is needed was deleted."""
        self._topics.check()

    def reading(self, partition: TopicPartition) -> Task | None:
        return next((task for task in self.ready.values() if partition in task.inputs), None)

    def restoring(self) -> tuple[Restoring, ...]:
        return tuple(
            Restoring(store.spec.name, id.partition, store.next - store.start, store.end - store.start)
            for id, opening in self.opening.items()
            for store in opening.stores
            if not store.done
        )

    def lag(self) -> int:
        """Records in the topics that these tasks have not taken yet."""
        inputs = [one for task in self.ready.values() for one in task.inputs.values()]
        ends = self.member.ends() if inputs else {}
        return sum(ends.get(one.partition, one.fetched) - one.fetched + one.waiting.size for one in inputs)

    def drop(self, tasks: Iterable[Task]) -> None:
        """Close tasks whose work, or store, is not to be trusted; they are restored from the log and opened anew."""
        for task in list(tasks):
            self._close(task.id)

    def close(self) -> None:
        for id in [*self.ready, *self.opening]:
            self._close(id)
        self.member.leave()

    def _wanted(self, assigned: frozenset[TopicPartition]) -> dict[TaskId, frozenset[TopicPartition]]:
        """Tasks all of whose partitions are ours."""
        wanted = {}
        for number, topics in enumerate(self._topics.plan.topics):
            for partition in range(self._topics.plan.tasks[number]):
                parts = {
                    TopicPartition(name, partition) for name in topics if partition < self._topics.partitions(name)
                }
                if parts and parts <= assigned:
                    wanted[TaskId(number, partition)] = frozenset(parts)
        return wanted

    def _begin(self, id: TaskId, partitions: frozenset[TopicPartition]) -> Opening:
        subtopology = self._topics.plan.subtopologies[id.subtopology]
        store = self._open_store(subtopology.stores, id.partition)
        task = Task(id, self._topology, subtopology, store, self.outbox, self._options)
        committed = self.member.committed(partitions)
        positions = {part: committed.get(part) or Position(self._log.start(part)) for part in partitions}
        stores = [
            Restoration(spec, task.changelog(spec.name), self._log, store, self._options.wall_clock)
            for spec in subtopology.stores
            if spec.logged
        ]
        return Opening(task, positions, stores)

    def _close(self, id: TaskId) -> None:
        task = self.opening.pop(id).task if id in self.opening else self.ready.pop(id, None)
        if task is not None:
            task.close()
