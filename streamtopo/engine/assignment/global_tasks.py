"""The global stores of one worker: filled from all partitions of their topics, and readable by all tasks."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.engine.failures.left_out import Reject
from streamtopo.engine.program.outbox import Outbox
from streamtopo.engine.program.stations import Failure
from streamtopo.engine.task.entries import RoundEntry, put_back
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.task import Task
from streamtopo.engine.topics.spacing import Spacing
from streamtopo.errors import SerdeError
from streamtopo.logs import Log
from streamtopo.records import Position, TopicPartition
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.rows.state import State
from streamtopo.topology import Topology

_REST = 20
"""The pause between two looks for new records is this multiple of what a look takes, some ms on a cluster."""
_LATEST = 0.1
"""The longest pause in seconds: new rows of a table should be visible soon."""


class GlobalTasks:
    """Each store belongs to a task of its own, outside of the group: nothing is committed but into memory.

    So it is read again from its topics whenever a worker starts. The topics should be compacted.
    """

    def __init__(
        self,
        topology: Topology,
        log: Log,
        partitions: Callable[[str], int],
        options: TaskOptions,
        config: WorkerConfig,
    ) -> None:
        self._log = log
        self._spacing = Spacing(config, _REST, most=_LATEST, now=options.steady_clock)
        self._chunk = options.chunk
        self.tasks: dict[TaskId, Task] = {}
        self._ends: dict[TopicPartition, int] = {}
        """Up to where each partition must be read before any other task starts."""
        self._spans: dict[TopicPartition, tuple[int, int]] = {}
        """The same with its start; it stays when the partition has been read."""
        self.states: dict[str, State] = {}
        options = options._replace(cache=0, max_task_idle=0)
        for part in topology.global_subtopologies():
            outbox = Outbox(lambda target, columns: None, lambda topic: 0)  # there are no sinks
            task = Task(TaskId(part.number, 0), topology, part, MemoryStore(), outbox, options)
            topics = [topic for source in part.sources for topic in source.topics]
            read = [TopicPartition(topic, number) for topic in topics for number in range(partitions(topic))]
            task.open({partition: Position(log.start(partition)) for partition in read})
            self.tasks[task.id] = task
            self._ends.update({partition: log.end(partition) for partition in read})
            self._spans.update(
                {partition: (task.inputs[partition].fetched, self._ends[partition]) for partition in read}
            )
            self.states.update(task.states)

    @property
    def loaded(self) -> bool:
        """Whether everything was read that was in the topics when the worker started."""
        return not self._ends

    def progress(self, task: Task) -> tuple[int, int]:
        """The number of records read so far, of those that existed at the start, and their total. For any thread."""
        read = [(one.fetched, *self._spans[partition]) for partition, one in task.inputs.items()]
        done = sum(min(fetched, end) - start for fetched, start, end in read)
        return done, sum(end - start for _, start, end in read)

    def update(self, reject: Reject) -> bool:
        """Read what is new in the topics, a slice of each; true if there was something."""
        if not self._spacing.due:
            return False
        with self._spacing.look():
            found = self._look(reject)
        if found or not self.loaded:
            self._spacing.again()
        return found

    def _look(self, reject: Reject) -> bool:
        found = False
        for task in self.tasks.values():
            found = bool(task.add_unread(reject)) or found
            for partition, one in task.inputs.items():
                batch = self._log.read(partition, one.fetched, 0 if one.unread else self._chunk)
                if batch.next_offset > one.fetched:
                    found = True
                    task.add(batch, reject)
                one.rejected.clear()  # nothing is written about them: every worker reads them again
            ends = {partition: one.fetched for partition, one in task.inputs.items()}
            while (taken := task.take(ends)) is not None:
                found = True
                self._keep(RoundEntry(task, taken), reject)
            # Only now: when the last end is reached, other threads may query the rows.
            for partition, one in task.inputs.items():
                if one.fetched >= self._ends.get(partition, 0) and not one.waiting.size:
                    self._ends.pop(partition, None)
        return found

    def close(self) -> None:
        for task in self.tasks.values():
            task.close()

    def _keep(self, entry: RoundEntry, reject: Reject) -> None:
        remembered = entry.remembered()
        try:
            entry.run(reject, fresh=False)
            changes = entry.task.take_changes()
        except (Failure, SerdeError):
            entry.task.rollback()
            if (halt := remembered.run_carefully(reject)) is not None:
                put_back(entry.task, [halt.rest], halt.again)
            changes = entry.task.take_changes()
        entry.task.write(changes, {})
        entry.task.committed()
