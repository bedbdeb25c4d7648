"""What an application shows of itself with `streamtopo worker APP --demo`: sample input, and a topic to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Demo:
    """Kept by the application's module under the name `demo`."""

    feed: Callable[[], Iterator[tuple[str, Any, Any]]]
    """An endless iterator of (topic, key, value), in the types of the topology; the same one each time."""
    shows: str
    """A topic that the topology writes: the keys with the largest values are shown."""
    title: str = "top"
    rate: int = 1000
    """Records per second to feed it."""
    of: Callable[[Any], Any] = lambda value: value
    """The number in a value of that topic."""
