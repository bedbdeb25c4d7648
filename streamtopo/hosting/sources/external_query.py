"""Queries of a store for programs without a worker: running workers are asked, else the disk is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from streamtopo.engine.assignment.tasks import OpenStore
from streamtopo.engine.compatibility.fingerprint import Fingerprint, compare, entries_of, note_of
from streamtopo.engine.plan import Plan, plan
from streamtopo.errors import StoreError
from streamtopo.hosting.queries.query import Query
from streamtopo.hosting.sources.offline_rows import OfflineRows
from streamtopo.hosting.sources.stores import Stores
from streamtopo.logs import Log
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.backends.directory import StateDirectory
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.backends.opening import stores_on_disk
from streamtopo.topology import Topology


@contextmanager
def open_query(
    topology: Topology, log: Log, config: WorkerConfig, store: str, *, wait: str | int = 0, token: str | None = None
) -> Iterator[Query]:
    current = plan(topology, log.topics())
    group = topology.application_id
    state = log.group(group)
    if state is not None and state.members:
        if not state.addresses:
            raise StoreError(
                f'the workers of "{group}" do not answer queries; start each of them with --web-port, or, in a service '
                "that serves streamtopo.web, pass its address= to host(…)"
            )
        with closing(Stores(group, lambda: current, lambda: (), log.group, token=token)) as stores:
            yield stores.query(store, wait)
        return
    _check_compatible(topology, log, current, store)
    with closing(OfflineRows(topology, current, log, _store_opener(group, config))) as rows:
        yield Query(lambda: current, rows, store)


def _check_compatible(topology: Topology, log: Log, current: Plan, store: str) -> None:
    """Refuse state that a different topology has written."""
    stored = Fingerprint.read(log.note(note_of(topology)))
    changes = compare(stored.entries, entries_of(topology, current))
    if changes.refused:
        raise changes.error()
    spec = topology.stores.get(store)
    if spec is not None and spec.logged and topology.changelog_of(store) not in log.topics():
        raise StoreError(
            f'store "{store}" has no rows yet: no worker of "{topology.application_id}" has run with it; start one'
        )


def _store_opener(application: str, config: WorkerConfig) -> OpenStore:
    """Open stores on the disk if a worker has stored them there; else in memory, so that a query leaves no files."""
    directory = StateDirectory(config.state_dir, application)
    on_disk = stores_on_disk(application, config.state_dir, config.memory)

    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> Store:
        exists = directory.has([spec.name for spec in stores], partition)
        return on_disk(stores, partition) if exists else MemoryStore()

    return open_store
