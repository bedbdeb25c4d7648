"""The loop: follow the assignment, read, process, commit; roll back and replay what raised."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from streamtopo.config import OnError, WorkerConfig
from streamtopo.engine.commit import commit
from streamtopo.engine.fingerprint import compare, fingerprint, text_of
from streamtopo.engine.journal import Entry, RoundEntry, TickEntry
from streamtopo.engine.outbox import Outbox
from streamtopo.engine.plan import Plan, plan
from streamtopo.engine.restore import Restoration
from streamtopo.engine.stations import Failure
from streamtopo.engine.task import Options, Task, TaskId
from streamtopo.errors import PartitionError, SerdeError, StepError
from streamtopo.logs import Log, Outcome, Topic
from streamtopo.records import Position, TopicPartition
from streamtopo.stores import Store
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")


_POLL_CHUNKS = 4
"""Partitions share what is read at a time; small shares would make small chunks."""


class Restoring(NamedTuple):
    """A task that is not open yet: its positions, read before its changelogs' ends were."""

    task: Task
    positions: Mapping[TopicPartition, Position]
    stores: list[Restoration]


class Worker:
    """One member of the group and the tasks it is assigned; all calls from one thread."""

    def __init__(
        self,
        topology: Topology,
        log: Log,
        open_store: Callable[[TaskId], Store],
        *,
        now: Callable[[], int],
        config: WorkerConfig | None = None,
        depth_first: bool = False,
    ) -> None:
        self.topology = topology
        self.log = log
        self.config = config or WorkerConfig()
        self.tasks: dict[TaskId, Task] = {}
        self.restoring: dict[TaskId, Restoring] = {}
        self.skipped = 0
        self._open_store = open_store
        self._now = now
        self._journal: list[Entry] = []
        self._uncommitted = 0
        self._commit_requested = False
        self._committed_at = now()
        self._options = Options(now, self._request_commit, self.config.chunk, self.config.cache, depth_first)
        self._counts: dict[str, int] = {}
        self.plan = self._prepare()
        self.member = log.join(topology.application_id, self.plan.topics)
        self.outbox = Outbox(lambda target, columns: self.member.send(target, columns), self._partitions)

    # -- one turn

    def run_once(self, timeout: float = 0.0) -> bool:
        """True if anything was read, restored or processed, or a commit was due; then there may be more to do."""
        self._follow_assignment()
        restored = self._restore()
        read = self._read(0.0 if restored or self._uncommitted else timeout)
        worked = self._process() | self._tick()
        caught_up = not read and not worked
        due = self._commit_due(caught_up)
        if due:
            self.commit()
        return restored or read or worked or due

    def _read(self, timeout: float) -> bool:
        limit = self.config.chunk
        inputs = {partition: one for task in self.tasks.values() for partition, one in task.inputs.items()}
        full = {partition for partition, one in inputs.items() if one.waiting.size >= limit}
        batches = self.member.poll(_POLL_CHUNKS * limit, timeout, full)
        for batch in batches:
            task = self._task_reading(batch.source)
            if task is not None:
                task.add(batch, self._reject)
                self._uncommitted += 1
        return bool(batches)

    def _process(self) -> bool:
        """One round of each task that has one."""
        ends = self.member.ends()
        worked = False
        for task in list(self.tasks.values()):
            try:
                taken = task.take(ends)
            except StepError:
                self._stop_at_failure()
                raise
            if taken is not None:
                self._do(RoundEntry(task, taken))
                worked = True
        return worked

    def _tick(self) -> bool:
        now = self._now()
        due = [task for task in self.tasks.values() if task.due("wall_clock", now)]
        for task in due:
            self._do(TickEntry(task, now))
        return bool(due)

    def _do(self, entry: Entry) -> None:
        self._journal.append(entry.remembered())
        self._uncommitted += 1
        try:
            entry.run(fresh=False)
        except Failure:
            self._find_failure({len(self._journal) - 1})

    # -- when a step raises

    def _find_failure(self, careful: set[int], *, forward_each: bool = False) -> None:
        """Undo to the last commit and do everything again, the entries in `careful` record by record."""
        while True:
            self._roll_back()
            for task in self.tasks.values() if forward_each else ():
                task.forward_each()
            for place, entry in enumerate(self._journal):
                try:
                    if place in careful:
                        entry.run_carefully(self._reject)
                    else:
                        entry.run(fresh=True)
                except Failure:
                    careful.add(place)
                    break
                except StepError:
                    self._stop_at_failure()
                    raise
            else:
                self._commit_requested = True
                return

    def _roll_back(self) -> None:
        self.member.abort()
        for task in self.tasks.values():
            task.rollback()

    def _reject(self, failure: StepError) -> None:
        if self.config.on_error is OnError.FAIL:
            raise failure
        logger.warning("skipped: %s", failure)
        self.skipped += 1

    def _stop_at_failure(self) -> None:
        """The failing record is undone; what was done before it is whole, and is kept."""
        try:
            self._flush_and_commit()
        finally:
            self._drop_tasks()

    # -- commit

    def _request_commit(self) -> None:
        self._commit_requested = True

    def _commit_due(self, caught_up: bool) -> bool:
        if not self._uncommitted:
            return False
        waited = self._now() - self._committed_at
        return (
            self._commit_requested
            or waited >= (self.config.commit_pause if caught_up else self.config.commit_interval)
            or sum(state.size for task in self.tasks.values() for state in task.states.values()) > self.config.cache > 0
        )

    def commit(self) -> bool:
        """True if everything done so far is durable now; if not, it is undone and will be done again."""
        try:
            return self._flush_and_commit()
        except (Failure, SerdeError):
            self._find_failure(set(range(len(self._journal))), forward_each=True)
        return self._flush_and_commit()

    def _flush_and_commit(self) -> bool:
        for task in self.tasks.values():
            task.flush()
        committed, broken = commit(self.tasks.values(), self.member)
        self._journal.clear()
        self._uncommitted, self._commit_requested, self._committed_at = 0, False, self._now()
        if committed.outcome is Outcome.DONE:
            for task in self.tasks.values():
                task.committed()
            self._drop_tasks(broken)
            return True
        logger.warning("commit %s: %s; going back to the last one", committed.outcome.value, committed.reason)
        if committed.outcome is Outcome.UNKNOWN:
            self.member.settle()
        self._drop_tasks()
        return False

    def _drop_tasks(self, tasks: Iterable[Task] | None = None) -> None:
        """Close tasks whose work, or store, is not to be trusted; they are restored from the log and opened anew."""
        dropped = list(self.tasks.values() if tasks is None else tasks)
        if tasks is None:
            self.member.abort()
            self._journal.clear()
            self._uncommitted = 0
        for task in dropped:
            del self.tasks[task.id]
            task.close()

    # -- the group

    def _follow_assignment(self) -> None:
        self._look_for_new_topics()
        wanted = self._wanted(self.member.assignment())
        held = {id: frozenset(task.inputs) for id, task in self.tasks.items()}
        held |= {id: frozenset(opening.positions) for id, opening in self.restoring.items()}
        revoked = [id for id, partitions in held.items() if wanted.get(id) != partitions]
        if revoked:
            if self._uncommitted:
                self.commit()
            for id in revoked:
                self._close(id)
            self.member.release(partition for id in revoked for partition in held[id])
        for id in wanted.keys() - self.tasks.keys() - self.restoring.keys():
            self.restoring[id] = self._opening(id, wanted[id])

    def _wanted(self, assigned: frozenset[TopicPartition]) -> dict[TaskId, frozenset[TopicPartition]]:
        """Tasks all of whose partitions are ours."""
        wanted = {}
        for number, topics in enumerate(self.plan.topics):
            for partition in range(self.plan.tasks[number]):
                parts = {TopicPartition(topic, partition) for topic in topics if partition < self._partitions(topic)}
                if parts and parts <= assigned:
                    wanted[TaskId(number, partition)] = frozenset(parts)
        return wanted

    def _opening(self, id: TaskId, partitions: frozenset[TopicPartition]) -> Restoring:
        subtopology = self.plan.subtopologies[id.subtopology]
        store = self._open_store(id)
        task = Task(id, self.topology, subtopology, store, self.outbox, self._options)
        committed = self.member.committed(partitions)
        positions = {part: committed.get(part) or Position(self.log.start(part)) for part in partitions}
        stores = [
            Restoration(spec, task.changelog(spec.name), self.log, store) for spec in subtopology.stores if spec.logged
        ]
        return Restoring(task, positions, stores)

    def _restore(self) -> bool:
        """One slice of each store that is behind; tasks that are ready do not wait for others."""
        restored = False
        for id, (task, positions, stores) in list(self.restoring.items()):
            for store in stores:
                restored |= store.step(self.config.chunk) > 0
            if all(store.done for store in stores):
                del self.restoring[id]
                task.open(positions)
                self.tasks[id] = task
                for partition, position in positions.items():
                    self.member.seek(partition, position.offset)
                restored = True
        return restored

    def _close(self, id: TaskId) -> None:
        if id in self.restoring:
            self.restoring.pop(id).task.close()
        elif id in self.tasks:
            self.tasks.pop(id).close()

    def close(self) -> None:
        """Commit, close and leave: others may take over at once."""
        if self._uncommitted:
            self.commit()
        for id in [*self.tasks, *self.restoring]:
            self._close(id)
        self.member.leave()

    # -- topics

    def _prepare(self) -> Plan:
        """Plan, create what is missing, and compare with what an earlier version left behind."""
        existing = dict(self.log.topics())
        planned = plan(self.topology, existing)
        note = f"{self.topology.application_id}/fingerprint"
        now = fingerprint(self.topology, planned)
        for line in compare(None if self.config.accept_changes else self.log.note(note), now):
            logger.info("new since the last start: %s", line)
        for topic in planned.internal:
            self.log.create(topic)
        self.log.write_note(note, text_of(now))
        self._planned_for = existing.keys() | {topic.name for topic in planned.internal}
        return planned

    def _look_for_new_topics(self) -> None:
        if not any(source.pattern for source in self.topology.sources):
            return
        if self.log.topics().keys() != self._planned_for:
            self.plan = self._prepare()
            self.member.subscribe(self.plan.topics)

    def _partitions(self, topic: str) -> int:
        if topic not in self._counts:
            if self.config.create_topics and topic not in self.log.topics():
                self.log.create(Topic(topic, self.config.create_topics))
            self._counts = {name: known.partitions for name, known in self.log.topics().items()}
        if topic not in self._counts:
            raise PartitionError(
                f'topic "{topic}" does not exist; create it first: streamtopo topics create {topic} --partitions 4'
            )
        return self._counts[topic]

    def _task_reading(self, partition: TopicPartition) -> Task | None:
        return next((task for task in self.tasks.values() if partition in task.inputs), None)
