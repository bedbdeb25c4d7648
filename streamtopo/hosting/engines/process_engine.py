"""An engine in processes of its own: it never delays the threads of the service."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.processes.pool import Pool
from streamtopo.hosting.engines.engine import Engine
from streamtopo.hosting.engines.lifecycle import Lifecycle


class ProcessEngine(Engine):
    """Runs a pool of processes. If the pool fails, all of it is replaced."""

    def __init__(
        self,
        create_pool: Callable[[], Pool],
        lifecycle: Lifecycle,
        on_uncaught: Callable[[BaseException], object],
        wanted: int,
    ) -> None:
        super().__init__(lifecycle, on_uncaught, wanted)
        self._create_pool = create_pool
        self._pool: Pool | None = None
        self._metrics: Metrics | None = None

    def metrics(self) -> Metrics | None:
        return self._metrics

    def apply_settings(self) -> None:
        if self._pool is not None:
            self._pool.wanted, self._pool.paused = self.wanted, self.paused

    def _create(self) -> None:
        self._pool = self._create_pool()
        self.apply_settings()

    def _run(self) -> None:
        assert self._pool is not None
        try:
            self._pool.run(each_turn=self._update)
        finally:
            self._metrics = None

    def _request_stop(self) -> None:
        if self._pool is not None:
            self._pool.stop()

    def _update(self) -> None:
        pool = self._pool
        assert pool is not None
        self._metrics = pool.metrics()
        self.update_state()

    def _is_settled(self) -> bool:
        return self._pool is not None and self._pool.settled and not (self._metrics and self._metrics.restoring)
