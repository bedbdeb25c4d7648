"""Steps of coroutines: many rows are waited for at once, and handed on in the order they came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from streamtopo.errors import TopologyError
from streamtopo.records import Chunk, Step

Coroutine = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Patience:
    """How many calls may be under way at once, how long one may take, and how often it is tried again."""

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


class Awaiting(Protocol):
    """Calls the coroutine function with the items at each place of the columns; the results, in that order."""

    def __call__(self, function: Coroutine, columns: list[list[Any]], patience: Patience) -> list[Any]: ...


@dataclass(frozen=True)
class Awaited:
    """A step to be opened where coroutines can be awaited."""

    make: Callable[[Coroutine, Patience, Awaiting], Step]
    function: Coroutine
    patience: Patience

    def step(self, awaiting: Awaiting) -> Step:
        return self.make(self.function, self.patience, awaiting)


def map_values_async(function: Coroutine, patience: Patience, awaiting: Awaiting) -> Step:
    return lambda chunk: chunk.with_values(awaiting(function, [chunk.values], patience))


def for_each_async(function: Coroutine, patience: Patience, awaiting: Awaiting) -> Step:
    def step(chunk: Chunk) -> Chunk:
        awaiting(function, [chunk.keys, chunk.values], patience)
        return chunk

    return step
