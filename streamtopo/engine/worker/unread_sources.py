"""Finds out whether tasks that announce nothing have nothing to read, or only nobody who reads it for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Thread

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
        self._now = options.steady_clock
        self._waits = options.origin_idle > 0
        """Otherwise the clock may stand still, and what was found before says nothing about now."""
        self._spacing = Spacing(config, _REST, now=self._now)
        self._all_read: dict[TaskId, float] = {}
        """When each task was last found to have nothing to read."""
        self._unread: dict[TaskId, tuple[float, frozenset[TopicPartition]]] = {}
        """If it, or a task before it, had unread records then: when that was, and what was unread."""
        self._ends: dict[TopicPartition, tuple[Mapping[TaskId, float], float, int]] = {}
        """When the end of a partition was looked up last, until when tasks were known to have read all then, and it."""
        self._asked: dict[TopicPartition, Collection[TaskId]] = {}
        """What could not be answered since the last look. The next one is for all: the first task that asks then must
        not be the only one that ever gets an answer."""
        self._look: Thread | None = None

    def written_until(self, origins: Collection[TaskId], partition: TopicPartition, since: float) -> int | None:
        """The end of a partition after each of these tasks had nothing to read, at some moment since then.

        What they write of the records until then is before this end. None if that is not so, or not known: ask again.
        Without origins it is the end at some moment since then.
        """
        found = self._found(origins, partition, since) if self._waits else None
        if found is None:
            self._asked[partition] = origins
            if self._spacing.due and (self._look is None or not self._look.is_alive()):
                self._begin()
                found = self._found(origins, partition, since)
        return found

    def unread(self, since: float) -> Mapping[TaskId, frozenset[TopicPartition]]:
        """The tasks for which something was found unread since then, and what."""
        found = self._unread.copy()  # another thread may add to it
        return {id: partitions for id, (looked_at, partitions) in found.items() if looked_at >= since}

    def _found(self, origins: Collection[TaskId], partition: TopicPartition, since: float) -> int | None:
        all_read, looked_at, end = self._ends.get(partition, ({}, -1, 0))
        return end if min([all_read.get(id, -1) for id in origins], default=looked_at) >= since else None

    def _begin(self) -> None:
        asked, self._asked = self._asked, {}
        if self._log.one_machine:
            self._ask(asked)
            return
        self._look = Thread(target=self._ask, args=(asked,), name="unread sources", daemon=True)
        self._look.start()

    def _ask(self, asked: Mapping[TopicPartition, Collection[TaskId]]) -> None:
        began = self._now()
        read = {id: self._tasks.partitions_before(id) for id in set[TaskId]().union(*asked.values())}
        try:
            with self._spacing.look():
                found = self._log.progress(self._group, frozenset(asked).union(*read.values()))
        except LogError:
            return  # the worker itself reports that; until then nothing is known
        if not self._waits:
            self._all_read.clear()  # by a clock that stands still, it would be as new as what is found now
        for id, partitions in read.items():
            unread = frozenset(one for one in partitions if found[one].position < found[one].end)
            if unread:
                self._unread[id] = began, unread
            else:
                self._unread.pop(id, None)
                self._all_read[id] = began
        all_read = self._all_read.copy()
        for partition in asked:
            self._ends[partition] = all_read, began, found[partition].end
