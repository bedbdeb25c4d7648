"""What a worker does with the repartition topics besides reading and writing rows: marks in them, and purges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamtopo.engine.assignment.held_back import HeldBackTime
from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.task.entries import Entry, HorizonEntry
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
        self._now = options.steady_clock
        self._unread = UnreadSources(topology.application_id, log, tasks, config, options)
        self.held_back = HeldBackTime(topology.application_id, tasks, self._unread.unread, options)
        self._announcements = Announcements(topology, tasks, config, options.steady_clock)
        self._purging = Purging(topology, log, options.steady_clock)

    def follow_horizon(self, task: Task, do: Callable[[Entry], None]) -> bool:
        """Let the clocks of a task go as far as the tasks before it have got; true if the horizon moves.

        Windows must not close without the updates that a record cache holds back: then it moves right after a commit.
        """
        if not task.horizons.waits:
            return False
        now = self._now()
        moves = task.horizons.hear(now, self._unread.written_until) and not _holds_back(task)
        if moves:
            do(HorizonEntry(task, task.horizons.found))
        self.held_back.note(task, now)
        return moves

    @property
    def news(self) -> bool:
        """Whether a commit would announce something, even if nothing was processed."""
        return self._announcements.due

    def marks(self) -> Iterator[tuple[TopicPartition, Columns]]:
        return self._announcements.marks()

    def committed(self) -> None:
        self._announcements.committed()
        self._purging.after_commit(self._tasks.ready.values())


def _holds_back(task: Task) -> bool:
    """Whether a record cache holds updates back until the commit."""
    return any(
        state.forwarding.holds_back and (state.changes.last or state.changes.expired) for state in task.states.values()
    )
