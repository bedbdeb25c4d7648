"""An engine in processes of its own: what it computes never keeps the service's threads waiting."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.pool import Pool
from streamtopo.hosting.engine import Engine
from streamtopo.hosting.states import Life


class Processes(Engine):
    """A pool that is looked after by a thread; it is replaced whole if it gives up."""

    def __init__(
        self, make: Callable[[], Pool], life: Life, on_uncaught: Callable[[BaseException], object], wanted: int
    ) -> None:
        super().__init__(life, on_uncaught, wanted)
        self._make = make
        self._pool: Pool | None = None
        self._metrics: Metrics | None = None

    def metrics(self) -> Metrics | None:
        return self._metrics

    def change(self) -> None:
        if self._pool is not None:
            self._pool.wanted, self._pool.paused = self.wanted, self.paused

    def _begin(self) -> None:
        self._pool = self._make()
        self.change()

    def _run(self) -> None:
        assert self._pool is not None
        try:
            self._pool.run(each_turn=self._look)
        finally:
            self._metrics = None

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.stop()

    def _look(self) -> None:
        pool = self._pool
        assert pool is not None
        self._metrics = pool.metrics()
        self.look()

    def _settled(self) -> bool:
        return self._pool is not None and self._pool.settled and not (self._metrics and self._metrics.restoring)
