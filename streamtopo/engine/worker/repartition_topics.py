"""What a worker does with the repartition topics besides reading and writing rows: marks in them, and purges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.worker.announcements import Announcements
from streamtopo.engine.worker.purge import Purging
from streamtopo.logs import Log
from streamtopo.records import Columns, TopicPartition
from streamtopo.topology import Topology


class RepartitionTopics:
    def __init__(self, topology: Topology, log: Log, tasks: Tasks, now: Callable[[], float]) -> None:
        self._tasks = tasks
        self._announcements = Announcements(topology, tasks)
        self._purging = Purging(topology, log, now)

    @property
    def news(self) -> bool:
        """Whether a commit would announce something, even if nothing was processed."""
        return self._announcements.due

    def marks(self) -> Iterator[tuple[TopicPartition, Columns]]:
        return self._announcements.marks()

    def committed(self) -> None:
        self._announcements.committed()
        self._purging.after_commit(self._tasks.ready.values())
