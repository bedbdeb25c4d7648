"""A worker that is the main work of its process, as those see it who ask its stores."""

from __future__ import annotations

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.worker import Worker
from streamtopo.hosting.states import AppState
from streamtopo.hosting.stores import Stores
from streamtopo.topology import Topology


class LookedAt:
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
