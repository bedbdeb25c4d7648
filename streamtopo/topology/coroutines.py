"""Coroutine functions of the user's: how they are called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from streamtopo.errors import TopologyError

Coroutine = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class CallLimits:
    """How many calls may run at once, how long one may take, and how often it is tried again."""

    concurrency: int
    timeout: float
    """Seconds for one attempt."""
    retries: int
    pause: float
    """Seconds before the first retry; twice as many before each further one."""

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise TopologyError(f"{name}={getattr(self, name)!r}: give a whole number of at least {least}")
        if self.timeout <= 0:
            raise TopologyError(f"timeout={self.timeout!r}: give a time above 0")


class Raised(NamedTuple):
    """Instead of a result: what a call raised because of its row."""

    error: Exception


class Awaiting(Protocol):
    """Calls the function with the items at each place of the columns; returns results, or `Raised`, in that order."""

    def __call__(self, function: Coroutine, columns: list[list[Any]], limits: CallLimits) -> list[Any]: ...
