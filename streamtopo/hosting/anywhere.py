"""A store for those who run no worker themselves: asked of the workers that have it, or read from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from streamtopo.config import WorkerConfig
from streamtopo.engine.plan import plan
from streamtopo.errors import StoreError
from streamtopo.hosting.query import Query
from streamtopo.hosting.resting import Resting
from streamtopo.hosting.stores import Stores
from streamtopo.logs import Log
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
    kept = stores_on_disk(group, config.state_dir, config.memory) if Path(config.state_dir).is_dir() else None
    with closing(Resting(topology, planned, log, kept or (lambda specs, partition: MemoryStore()))) as resting:
        yield Query(lambda: planned, resting, store)
