"""A stand-alone worker, presented to queries and to the web like a hosted app."""

from __future__ import annotations

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.worker.worker import Worker
from streamtopo.hosting.engines.lifecycle import AppState
from streamtopo.hosting.sources.stores import Stores
from streamtopo.topology import Topology


class StandaloneWorker:
    def __init__(self, topology: Topology, worker: Worker, *, address: str = "", token: str | None = None) -> None:
        self.topology = topology
        self.stores = Stores(
            topology.application_id,
            lambda: worker.plan,
            lambda: (worker,),
            worker.log.group,
            address=address,
            token=token,
        )
        self._worker = worker

    @property
    def state(self) -> AppState:
        if not self._worker.begun:
            return AppState.CREATED
        return AppState.REBALANCING if self._worker.opening else AppState.RUNNING

    def metrics(self) -> Metrics:
        return self._worker.metrics()
