"""An engine in threads of this process, one for each worker; mostly there is one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from streamtopo.engine.interpreter import brisk_switching
from streamtopo.engine.metrics import Metrics, together
from streamtopo.engine.running import run
from streamtopo.engine.worker import Worker
from streamtopo.hosting.engine import Engine
from streamtopo.hosting.states import Life


class Threaded(Engine):
    """If a worker fails the others come to an end too, after a commit; then all are replaced, if that is wanted."""

    def __init__(self, make: Callable[[], Worker], life: Life, on_uncaught: Callable[[BaseException], object]) -> None:
        super().__init__(life, on_uncaught)
        self.workers: tuple[Worker, ...] = ()
        """At work, in the order in which they came; never changed in place, as other threads look at it."""
        self._make = make
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._news = threading.Event()
        self._lock = threading.Lock()

    def metrics(self) -> Metrics | None:
        workers = self.workers
        return together(worker.metrics() for worker in workers) if workers else None

    def change(self) -> None:
        for worker in self.workers:
            worker.paused = self.paused
        self._news.set()

    def _begin(self) -> None:
        self._failure = None
        self._add()

    def _run(self) -> None:
        with brisk_switching:
            try:
                while True:
                    self._news.clear()
                    if self._stopping.is_set() or self._failure is not None:
                        break
                    self._adjust()
                    self._news.wait()
            finally:
                self._end()
                for thread in self._threads:
                    thread.join()
                self._threads.clear()
        if self._failure is not None:
            raise self._failure

    def _end(self) -> None:
        for worker in self.workers:
            worker.stop()
        self._news.set()

    def _adjust(self) -> None:
        staying = [worker for worker in self.workers if not worker.stopping]
        for worker in staying[self.wanted :]:
            worker.stop()
        for _ in range(self.wanted - len(staying)):
            self._add()

    def _add(self) -> None:
        """An error if it cannot be made; it is made in its own thread, which alone may use it."""
        made: Future[None] = Future()
        thread = threading.Thread(target=self._work_on_one, args=(made,), name="streamtopo worker", daemon=True)
        thread.start()
        self._threads = [thread, *(one for one in self._threads if one.is_alive())]
        made.result()

    def _work_on_one(self, made: Future[None]) -> None:
        try:
            worker = self._make()
        except BaseException as error:
            made.set_exception(error)
            return
        with self._lock:
            self.workers = (*self.workers, worker)
        worker.paused = self.paused
        made.set_result(None)
        try:
            run(worker, each_turn=self.look, signals=False)
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            with self._lock:
                self.workers = tuple(one for one in self.workers if one is not worker)
            self._news.set()

    def _settled(self) -> bool:
        workers = self.workers
        return len(workers) == self.wanted and all(one.begun and not one.opening for one in workers)
