"""Tells the log of the program, by `logging`, that an app is running, and how many tasks it has."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.plan import Plan
from streamtopo.hosting.engines.lifecycle import AppState

logger = logging.getLogger("streamtopo")


class TaskNotice:
    """A listener of the state: one line when the app is running, and again if the number of its tasks changes."""

    def __init__(
        self, application: str, place: str, plan: Callable[[], Plan], metrics: Callable[[], Metrics | None]
    ) -> None:
        self._application = application
        self._place = place
        self._plan = plan
        self._metrics = metrics
        self._tasks = -1

    def __call__(self, new: AppState, old: AppState) -> None:
        metrics = self._metrics()
        if new is not AppState.RUNNING or metrics is None or len(metrics.tasks) == self._tasks:
            return
        self._tasks = len(metrics.tasks)
        parts = zip(self._plan().tasks, self._plan().topics, strict=True)
        read = "; ".join(f"{number} for {', '.join(topics)}" for number, topics in parts if number)
        logger.info(
            'app "%s" is running: it has %d of %d tasks (%s); %s',
            self._application,
            self._tasks,
            sum(self._plan().tasks),
            read,
            self._place,
        )
