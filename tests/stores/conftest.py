"""The fillings of the store protocol, each in a place of its own that can be opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamtopo.stores import Store
from streamtopo.stores.memory import MemoryStore
from streamtopo.stores.rocks import MemoryBudget, RocksStore

OpenStore = Callable[[], Store]


@pytest.fixture(params=["memory", "rocks"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Each call opens the same store again; what is still open at the end is closed."""
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
