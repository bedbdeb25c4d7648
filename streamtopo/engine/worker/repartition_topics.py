"""What a worker does with the repartition topics besides reading and writing rows: marks in them, and purges."""

from __future__ import annotations

from collections.abc import Iterator

from streamtopo.engine.assignment.held_back import HeldBackTime
from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.task.options import TaskOptions
from streamtopo.engine.task.task import Task
from streamtopo.engine.worker.announcements import Announcements
from streamtopo.engine.worker.purge import Purging
from streamtopo.engine.worker.unread_sources import UnreadSources
from streamtopo.logs import Log
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.config import WorkerConfig
from streamtopo.topology import Topology


class RepartitionTopics:
    def __init__(self, topology: Topology, log: Log, tasks: Tasks, config: WorkerConfig, options: TaskOptions) -> None:
        self._tasks = tasks
        self._now = options.wall_clock
        self._patience = config.origin_idle
        self._unread = UnreadSources(topology.application_id, log, tasks, config, options)
        self.held_back = HeldBackTime(topology.application_id, tasks, self._unread.of, config, options)
        self._announcements = Announcements(topology, tasks)
        self._purging = Purging(topology, log, options.steady_clock)

    def horizon_moves(self, task: Task) -> bool:
        """Whether the clocks of a task may go further, by what is known now of the tasks before it."""
        horizons = task.horizons
        if not horizons.sources:
            return False
        now = self._now()
        moves = horizons.hear(now, self._patience, self._unread.all_read)
        self.held_back.note(task, now)
        return moves

    def close(self) -> None:
        self._unread.close()

    @property
    def news(self) -> bool:
        """Whether a commit would announce something, even if nothing was processed."""
        return self._announcements.due

    def marks(self) -> Iterator[tuple[TopicPartition, Columns]]:
        return self._announcements.marks()

    def committed(self) -> None:
        self._announcements.committed()
        self._purging.after_commit(self._tasks.ready.values())
