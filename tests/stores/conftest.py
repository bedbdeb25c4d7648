"""The implementations of the store protocol, each in a directory that can be reopened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamtopo.stores import Store
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore

OpenStore = Callable[[], Store]


@pytest.fixture(params=["memory", "rocks"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Return a function that opens the same store again; stores still open at the end are closed."""
    if request.param == "memory":
        store = MemoryStore()
        yield lambda: store
        return
    memory, opened = MemoryBudget(16 << 20), []

    def open_again() -> Store:
        opened.append(RocksStore(tmp_path / "rows", memory))
        return opened[-1]

    yield open_again
    for one in opened:
        one.close()
