"""The demo of an application, for `streamtopo worker APP --demo`: sample input, and a topic to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Demo:
    """An application's module has one under the name `demo`."""

    feed: Callable[[], Iterator[tuple[str, Any, Any]]]
    """Returns an endless iterator of (topic, key, value), in the types of the topology; the same records each time."""
    shows: str
    """A topic that the topology writes; the keys with the largest values are shown."""
    title: str = "top"
    rate: int = 1000
    """Records per second to send."""
    of: Callable[[Any], Any] = lambda value: value
    """Returns the number in a value of that topic."""
