"""The id of a task, and the options that a worker gives to all its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from streamtopo.engine.task.ahead import Ahead
from streamtopo.stores.rows.state import State
from streamtopo.wall_clock import steady_clock


class TaskId(NamedTuple):
    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class TaskOptions(NamedTuple):
    """The same for all tasks of a worker."""

    wall_clock: Callable[[], int]
    request_commit: Callable[[], None]
    chunk: int = 10_000
    cache: int = 0
    depth_first: bool = False
    global_states: Mapping[str, State] = MappingProxyType({})
    """The global stores, which the worker keeps for all tasks."""
    ahead: Mapping[str, Ahead] = MappingProxyType({})
    """For each source, how far its records may be ahead of the wall clock."""
    origin_idle: int = 0
    """For how many milliseconds tasks wait for origins that have caught up; 0: not at all."""
    clock_set: int = 0
    """A wall clock that shows an earlier time was never set; then no record is too far ahead of it."""
    max_task_idle: int = 0
    """How long a task waits for inputs that are empty."""
    steady_clock: Callable[[], float] = steady_clock
    """Milliseconds, for all pauses and waits: the wall clock may be set meanwhile."""
