"""What a worker says of itself, taken in its own thread for others to look at."""

from __future__ import annotations

import time

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.worker import Worker
from streamtopo.hosting.states import AppState
from streamtopo.hosting.stores import Stores
from streamtopo.topology import Topology

_BETWEEN = 0.1
"""Seconds from one look at the numbers to the next."""


class Glimpse:
    def __init__(self) -> None:
        self.metrics: Metrics | None = None
        self._next = 0.0

    def look(self, worker: Worker) -> None:
        if time.monotonic() >= self._next:
            self.metrics = worker.metrics()
            self._next = time.monotonic() + _BETWEEN

    def forget(self) -> None:
        self.metrics, self._next = None, 0.0


class LookedAt:
    """A worker that is the main work of its process, as those see it who ask its stores; `look` after every turn."""

    def __init__(self, topology: Topology, worker: Worker, *, address: str = "", token: str | None = None) -> None:
        self.topology = topology
        self.stores = Stores(
            topology.application_id,
            lambda: worker.plan,
            lambda: worker,
            worker.log.groups,
            address=address,
            token=token,
        )
        self._worker = worker
        self._glimpse = Glimpse()

    @property
    def state(self) -> AppState:
        if self._glimpse.metrics is None:
            return AppState.CREATED
        return AppState.REBALANCING if self._worker.opening else AppState.RUNNING

    def metrics(self) -> Metrics | None:
        return self._glimpse.metrics

    def look(self) -> None:
        self._glimpse.look(self._worker)
