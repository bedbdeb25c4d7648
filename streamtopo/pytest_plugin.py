"""A pytest plugin: the fixture `driver` makes drivers and closes them after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from streamtopo.engine.loading import Described
    from streamtopo.testing import Driver


@pytest.fixture
def driver() -> Iterator[Callable[..., Driver]]:
    """`driver(topology, partitions=2)` is a `streamtopo.testing.Driver` with these options."""
    from streamtopo.testing import Driver

    made: list[Driver] = []

    def make(topology: Described | str, **options: Any) -> Driver:
        made.append(Driver(topology, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
