"""Opens the stores of a worker's tasks: in RocksDB under a state directory, or in memory if declared so."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.backends import open_files
from streamtopo.stores.backends.memory import MemoryStore


def stores_on_disk(application: str, state_dir: str, memory: int) -> Callable[[tuple[StoreSpec, ...], int], Store]:
    """Nothing is opened, and RocksDB is not even imported, before the first task that keeps rows on disk."""
    disks: list[Callable[[tuple[StoreSpec, ...], int], Store]] = []

    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> Store:
        if all(spec.in_memory for spec in stores):
            return MemoryStore()
        if not disks:
            disks.append(_disk(application, state_dir, memory))
        return disks[0](stores, partition)

    return open_store


def _disk(application: str, state_dir: str, memory: int) -> Callable[[tuple[StoreSpec, ...], int], Store]:
    from streamtopo.stores.backends.directory import StateDirectory
    from streamtopo.stores.backends.rocks import MemoryBudget, open_rocks

    state, budget = StateDirectory(state_dir, application), MemoryBudget(memory)

    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> Store:
        open_files.check()
        return open_rocks(state.open([spec.name for spec in stores], partition), budget)

    return open_store
