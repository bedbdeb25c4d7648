"""An engine in threads of this process, one for each worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from streamtopo.engine.metrics import Metrics, together
from streamtopo.engine.worker.interpreter import frequent_switching
from streamtopo.engine.worker.run import run
from streamtopo.engine.worker.worker import Worker
from streamtopo.hosting.engines.engine import Engine
from streamtopo.hosting.engines.lifecycle import Lifecycle


class ThreadEngine(Engine):
    """Runs workers in threads. If one fails, the others commit and stop, too; then all are replaced, if wanted."""

    def __init__(
        self, create_worker: Callable[[], Worker], lifecycle: Lifecycle, on_uncaught: Callable[[BaseException], object]
    ) -> None:
        super().__init__(lifecycle, on_uncaught)
        self.workers: tuple[Worker, ...] = ()
        """The running workers, oldest first. Never changed in place, because other threads read it."""
        self._create_worker = create_worker
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._changed = threading.Event()
        self._lock = threading.Lock()

    def metrics(self) -> Metrics | None:
        workers = self.workers
        return together(worker.metrics() for worker in workers) if workers else None

    def apply_settings(self) -> None:
        for worker in self.workers:
            worker.paused = self.paused
        self._changed.set()

    def _create(self) -> None:
        self._failure = None
        self._add_worker()

    def _run(self) -> None:
        with frequent_switching:
            try:
                while True:
                    self._changed.clear()
                    if self._stopping.is_set() or self._failure is not None:
                        break
                    self._adjust_workers()
                    self._changed.wait()
            finally:
                self._request_stop()
                for thread in self._threads:
                    thread.join()
                self._threads.clear()
        if self._failure is not None:
            raise self._failure

    def _request_stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        self._changed.set()

    def _adjust_workers(self) -> None:
        staying = [worker for worker in self.workers if not worker.stopping]
        for worker in staying[self.wanted :]:
            worker.stop()
        for _ in range(self.wanted - len(staying)):
            self._add_worker()

    def _add_worker(self) -> None:
        """Start a worker, created in its own thread, the only one that may use it. Raise the error if that fails."""
        created: Future[None] = Future()
        thread = threading.Thread(target=self._run_worker, args=(created,), name="streamtopo worker", daemon=True)
        thread.start()
        self._threads = [thread, *(one for one in self._threads if one.is_alive())]
        created.result()

    def _run_worker(self, created: Future[None]) -> None:
        try:
            worker = self._create_worker()
        except BaseException as error:
            created.set_exception(error)
            return
        with self._lock:
            self.workers = (*self.workers, worker)
        worker.paused = self.paused
        created.set_result(None)
        try:
            run(worker, each_turn=self.update_state, signals=False)
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            with self._lock:
                self.workers = tuple(one for one in self.workers if one is not worker)
            self._changed.set()

    def _is_settled(self) -> bool:
        workers = self.workers
        return len(workers) == self.wanted and all(one.begun and not one.opening for one in workers)
