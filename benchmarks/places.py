"""Where a run happens: its own log and stores, in memory or below a directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from streamtopo.logs import Log
from streamtopo.logs.opening import open_log
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.backends.memory import MemoryStore


class Place:
    def __init__(self, log: Log, make_store: Callable[[str], Store]) -> None:
        self.log = log
        self.stores: list[Store] = []
        self._make_store = make_store

    def open_store(self, stores: tuple[StoreSpec, ...], partition: int) -> Store:
        """Return a store for the rows of one task: of all its stores, on one partition."""
        return self.open_rows()

    def open_rows(self) -> Store:
        """Return a store as `open_store` does, without the names of what it contains."""
        self.stores.append(self._make_store(str(len(self.stores))))
        return self.stores[-1]

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.log.close()


@contextmanager
def fresh_place(url: str) -> Iterator[Place]:
    """Yield a place in `memory:`, or in a new directory below PATH of `embedded:PATH`, which is removed afterwards."""
    if not url.startswith("embedded:"):
        yield from _closing(Place(open_log(url), lambda name: MemoryStore()))
        return
    with fresh_site(url) as site:
        yield from _closing(Place(open_log(site.url), rocks_stores(site.state)))


class Site(NamedTuple):
    """What several processes share: a directory for a log and stores."""

    directory: Path
    url: str

    @property
    def state(self) -> Path:
        return self.directory / "state"


@contextmanager
def fresh_site(url: str) -> Iterator[Site]:
    """Yield a new directory below PATH of `embedded:PATH`; it is removed afterwards."""
    path, mark, query = url.removeprefix("embedded:").partition("?")
    above = Path(path).absolute()
    above.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="benchmark-", dir=above))
    try:
        yield Site(directory, f"embedded:{directory / 'log'}{mark}{query}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _closing(place: Place) -> Iterator[Place]:
    try:
        yield place
    finally:
        place.close()


def rocks_stores(directory: Path) -> Callable[[str], Store]:
    from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore

    memory = MemoryBudget()
    directory.mkdir(parents=True)
    return lambda name: RocksStore(directory / name, memory)
