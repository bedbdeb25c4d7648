"""What the time of a worker's tasks waits for: other tasks that write their repartition topics, and are behind."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.metrics import TimeHeldBack, Why, held_back_by
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.origins import Unread, WaitedFor
from streamtopo.engine.task.task import Task
from streamtopo.records import TopicPartition

logger = logging.getLogger("streamtopo")

_PATIENCE = 30_000
"""How long time may stop without a warning."""
_AGAIN = 300_000
"""The pause between two warnings about the same task."""
_LOOK = 1_000

_NEXT: dict[Why, str] = {
    "restoring": "This worker restores the stores of the task, and then starts it",
    "unread": "It had read everything, but now there are unread records: start its worker; if that worker "
    "runs, look at its log, or start more workers",
    "behind": "It has announced no progress since then: if its worker is not running, start it; if it runs, look at "
    "its log",
    "not started": "It has never announced a time: start its worker, or look at the log of the worker that has it",
    "idle": "It is not known yet whether it has records to read: check that the log answers",
}


UnreadSince = Callable[[float], Unread]
"""What was found unread since a time."""


class HeldBackTime:
    """Waits are measured by the steady clock, and shown by the wall clock."""

    def __init__(self, application: str, tasks: Tasks, unread: UnreadSince, options: TaskOptions) -> None:
        self._application = application
        self._tasks = tasks
        self._unread = unread
        self._patience = _PATIENCE + options.origin_idle
        self._options = options
        self._look_at = 0.0
        self._warned_at: dict[str, float] = {}
        """For each task that there was a warning about."""

    def note(self, task: Task, now: float) -> None:
        """Called in each turn for each task that reads what several tasks write."""
        horizons = task.horizons
        horizons.note(task.progress.stream_time, now)
        since = horizons.held_since
        if since is not None and now - since >= self._patience and now >= self._look_at:
            self._look_at = now + _LOOK
            self._warn(now)

    def all(self) -> tuple[TimeHeldBack, ...]:
        """The tasks that are waited for, each once: behind those that wait themselves are those that they wait for."""
        before: dict[TaskId, WaitedFor] = {}
        waiting: list[tuple[Task, float]] = []
        for task in self._tasks.ready.values():
            since, stream_time = task.horizons.held_since, task.progress.stream_time
            if since is None or stream_time.seen <= stream_time.time:
                continue
            if (found := task.horizons.waited_for(self._unread(since))) is not None:
                before[task.id] = found
                waiting.append((task, since))
        return held_back_by(self._of(task, since, _first(task.id, before)) for task, since in waiting)

    def _of(self, task: Task, since: float, waited_for: WaitedFor) -> TimeHeldBack:
        origin, (time, seen) = waited_for.origin, (task.progress.time, task.progress.stream_time.seen)
        own, unread = self._tasks.partitions_of(origin), self._unread(since).get(origin, frozenset())
        why = self._why(waited_for, unread)
        places = ((own & unread) or unread) if why == "unread" else own
        shown = self._options.wall_clock() - int(self._options.steady_clock() - since)
        return TimeHeldBack(str(origin), tuple(sorted(places)), why, seen - time if time >= 0 else None, shown)

    def _why(self, waited_for: WaitedFor, unread: frozenset[TopicPartition]) -> Why:
        origin, time, caught_up = waited_for
        if origin in self._tasks.opening:
            return "restoring"
        if time is None and origin not in self._tasks.ready:
            return "not started"
        if not caught_up:
            return "behind"
        return "unread" if unread else "idle"

    def _warn(self, now: float) -> None:
        shown = self._options.wall_clock()
        for one in self.all():
            if shown - one.since >= self._patience and now - self._warned_at.get(one.task, now - _AGAIN) >= _AGAIN:
                self._warned_at[one.task] = now
                logger.warning(
                    "%s. %s. Until it continues, windows after it stay open. To see the worker and lag of each "
                    "partition: streamtopo groups describe %s",
                    one.in_words(shown),
                    _NEXT[one.why],
                    self._application,
                )


def _first(task: TaskId, before: dict[TaskId, WaitedFor]) -> WaitedFor:
    """The task that a chain of tasks waits for; with a join by foreign key, tasks may wait for each other."""
    found = before[task]
    passed = {task}
    while found.origin in before and found.origin not in passed:
        passed.add(found.origin)
        found = before[found.origin]
    return found
