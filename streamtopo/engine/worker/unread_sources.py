"""Finds out whether tasks that announce nothing have nothing to read, or only nobody who reads it for them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.topics.spacing import Spacing
from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.settings.config import WorkerConfig

_REST = 50
"""The pause between two looks is this multiple of what a look takes."""


class UnreadSources:
    """A worker that is down, or slow, may have announced that it has caught up, before new records came.

    A log on this machine is asked in the worker's thread; a cluster, which may not answer, in a thread of its own.
    """

    def __init__(self, group: str, log: Log, tasks: Tasks, config: WorkerConfig, options: TaskOptions) -> None:
        self._group = group
        self._log = log
        self._tasks = tasks
        self._now = options.wall_clock
        self._spacing = Spacing(config, _REST, now=options.steady_clock)
        self._all_read: dict[TaskId, int] = {}
        """When each task was last found to have nothing to read, by the wall clock."""
        self._unread: dict[TaskId, frozenset[TopicPartition]] = {}
        """What each of them had not read, when this was last looked at."""
        self._executor: ThreadPoolExecutor | None = None
        self._look: Future[None] | None = None

    def all_read(self, origins: Iterable[TaskId], since: int) -> bool:
        """Whether each of these tasks had nothing to read at some moment since then. If not, look again soon."""
        unknown = [id for id in origins if self._all_read.get(id, -1) < since]
        if unknown and self._spacing.due and (self._look is None or self._look.done()):
            self._begin(unknown)
        return all(self._all_read.get(id, -1) >= since for id in unknown)

    def of(self, origin: TaskId) -> frozenset[TopicPartition]:
        """What it had not read when this was last looked at, if it was."""
        return self._unread.get(origin, frozenset())

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _begin(self, origins: list[TaskId]) -> None:
        if self._log.one_machine:
            self._find(origins)
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "streamtopo unread sources")
        self._look = self._executor.submit(self._find, origins)

    def _find(self, origins: list[TaskId]) -> None:
        began = self._now()
        partitions = {id: self._tasks.partitions_of(id) for id in origins}
        try:
            with self._spacing.look():
                unread = self._log.unread(self._group, frozenset().union(*partitions.values()))
        except LogError:
            return  # the worker itself reports that; until then nothing is known
        self._unread.update({id: unread & read for id, read in partitions.items()})
        self._all_read.update({id: began for id, read in partitions.items() if unread.isdisjoint(read)})
