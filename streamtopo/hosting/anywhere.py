"""A store for those who run no worker themselves: asked of the workers that have it, or read from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from streamtopo.config import WorkerConfig
from streamtopo.engine.fingerprint import Fingerprint, compare, entries_of, note_of
from streamtopo.engine.plan import Plan, plan
from streamtopo.engine.tasks import OpenStore
from streamtopo.errors import StoreError
from streamtopo.hosting.query import Query
from streamtopo.hosting.resting import Resting
from streamtopo.hosting.stores import Stores
from streamtopo.logs import Log
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.directory import StateDirectory
from streamtopo.stores.memory import MemoryStore
from streamtopo.stores.opening import stores_on_disk
from streamtopo.topology import Topology


@contextmanager
def asked_anywhere(
    topology: Topology, log: Log, config: WorkerConfig, store: str, *, wait: str | int = 0, token: str | None = None
) -> Iterator[Query]:
    planned = plan(topology, log.topics())
    group = topology.application_id
    state = log.group(group)
    if state is not None and state.members:
        if not state.addresses:
            raise StoreError(
                f'the workers of "{group}" answer no queries; start one of them with --web-port, or, in a service that '
                "serves streamtopo.web, give host(…) the address= of it"
            )
        with closing(Stores(group, lambda: planned, lambda: (), log.group, token=token)) as stores:
            yield stores.query(store, wait)
        return
    _check(topology, log, planned, store)
    with closing(Resting(topology, planned, log, _where_kept(group, config))) as resting:
        yield Query(lambda: planned, resting, store)


def _check(topology: Topology, log: Log, planned: Plan, store: str) -> None:
    """What this topology did not leave behind cannot be read with it."""
    kept = Fingerprint.read(log.note(note_of(topology)))
    changes = compare(kept.entries, entries_of(topology, planned))
    if changes.refused:
        raise changes.error()
    spec = topology.stores.get(store)
    if spec is not None and spec.logged and topology.changelog_of(store) not in log.topics():
        raise StoreError(
            f'store "{store}" has no rows yet, as no worker of "{topology.application_id}" has run with it; start one'
        )


def _where_kept(application: str, config: WorkerConfig) -> OpenStore:
    """Where a worker left rows on this machine; else in memory, so that a query leaves nothing behind."""
    directory = StateDirectory(config.state_dir, application)
    on_disk = stores_on_disk(application, config.state_dir, config.memory)

    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> Store:
        there = directory.has([spec.name for spec in stores], partition)
        return on_disk(stores, partition) if there else MemoryStore()

    return open_store
