"""Keeps the memory that rows of stores use within the limits of the options."""

from __future__ import annotations

from collections.abc import Iterator

from streamtopo.engine.assignment.global_tasks import GlobalTasks
from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores.rows.state import State


class RowMemory:
    def __init__(self, config: WorkerConfig, tasks: Tasks, globals: GlobalTasks) -> None:
        self._cache, self._kept = config.cache, max(config.cache, config.row_memory)
        """The limits in bytes of changed rows, and of all rows."""
        self._tasks = tasks
        self._globals = globals

    @property
    def full(self) -> bool:
        """Whether more rows have changed since the last commit than the cache may hold."""
        return sum(state.changed_bytes for state in self._states()) > self._cache > 0

    def trim(self) -> None:
        """After a commit: forget rows that can be read from the stores again."""
        if sum(state.kept_bytes for state in self._states()) > self._kept:
            for state in self._states():
                state.forget_older()

    def _states(self) -> Iterator[State]:
        yield from (state for task in self._tasks.ready.values() for state in task.states.values())
        yield from self._globals.states.values()
