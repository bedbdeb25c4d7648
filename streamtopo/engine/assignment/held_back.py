"""What the time of a worker's tasks waits for: other tasks that write their repartition topics, and are behind."""

from __future__ import annotations

import logging

from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.metrics import TimeHeldBack, Why, held_back_by
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.origins import Unread, WaitedFor
from streamtopo.engine.task.task import Task
from streamtopo.settings.config import WorkerConfig

logger = logging.getLogger("streamtopo")

_PATIENCE = 30_000
"""How long time may stop without a warning."""
_AGAIN = 300_000
"""The pause between two warnings about the same task."""
_LOOK = 1_000

_NEXT: dict[Why, str] = {
    "restoring": "This worker restores its stores, and will start it then",
    "unread": "It had read all that there was, but now there are records that nobody reads: start its worker; if that "
    "runs, look at its log, or give the application more workers",
    "behind": "It has announced no progress since then: if its worker is not running, start it, else look at its log",
    "not started": "It has never announced its time: start its worker, or look at the log of the one that has it",
    "idle": "It is not known yet that it has nothing to read: look whether the log answers",
}


class HeldBackTime:
    def __init__(
        self, application: str, tasks: Tasks, unread: Unread, config: WorkerConfig, options: TaskOptions
    ) -> None:
        self._application = application
        self._tasks = tasks
        self._unread = unread
        self._patience = _PATIENCE + config.origin_idle
        self._now = options.wall_clock
        self._look_at = 0
        self._warned_at: dict[str, int] = {}
        """For each task that there was a warning about."""

    def note(self, task: Task, now: int) -> None:
        """Called in each turn for each task that reads what several tasks write."""
        horizons = task.horizons
        horizons.note(task.progress.stream_time, now)
        since = horizons.held_since
        if since is not None and now - since >= self._patience and now >= self._look_at:
            self._look_at = now + _LOOK
            self._warn(now)

    def all(self) -> tuple[TimeHeldBack, ...]:
        """The tasks that are waited for, each once: behind those that wait themselves are those that they wait for."""
        waiting = {
            task: task.horizons.slowest.waited_for(self._unread)
            for task in self._tasks.ready.values()
            if task.horizons.held_since is not None and task.progress.stream_time.seen > task.progress.time
        }
        before = {task.id: found for task, found in waiting.items()}
        return held_back_by(self._of(task, _first(found, before)) for task, found in waiting.items())

    def _of(self, task: Task, waited_for: WaitedFor) -> TimeHeldBack:
        origin, stream_time, since = waited_for.origin, task.progress.stream_time, task.horizons.held_since
        why = self._why(waited_for)
        read = (self._unread(origin) if why == "unread" else ()) or self._tasks.partitions_of(origin)
        return TimeHeldBack(
            str(origin),
            tuple(sorted(one.topic for one in read)),
            origin.partition,
            why,
            stream_time.seen - stream_time.time if stream_time.time >= 0 else None,
            self._now() if since is None else since,
        )

    def _why(self, waited_for: WaitedFor) -> Why:
        origin, time, caught_up = waited_for
        if origin in self._tasks.opening:
            return "restoring"
        if time is None and origin not in self._tasks.ready:
            return "not started"
        if not caught_up:
            return "behind"
        return "unread" if self._unread(origin) else "idle"

    def _warn(self, now: int) -> None:
        for one in self.all():
            if now - one.since >= self._patience and now - self._warned_at.get(one.task, now - _AGAIN) >= _AGAIN:
                self._warned_at[one.task] = now
                logger.warning(
                    "%s. %s. Until it gets on, windows after it stay open. Who has which partition, and its lag: "
                    "streamtopo groups describe %s",
                    one.in_words(now),
                    _NEXT[one.why],
                    self._application,
                )


def _first(waited_for: WaitedFor, before: dict[TaskId, WaitedFor]) -> WaitedFor:
    """The task that a chain of tasks waits for; with a join by foreign key, tasks may wait for each other."""
    passed: set[TaskId] = set()
    while waited_for.origin in before and waited_for.origin not in passed:
        passed.add(waited_for.origin)
        waited_for = before[waited_for.origin]
    return waited_for
