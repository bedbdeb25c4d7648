"""The engine inside a program: it runs in a thread of its own, and can be replaced when it fails."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.tracebacks import without_engine
from streamtopo.errors import StepError
from streamtopo.hosting.engines.lifecycle import AppState, Lifecycle

logger = logging.getLogger("streamtopo")

_QUICK_FAILURE = 5.0
"""Seconds: each failure within this time of the start delays the next replacement longer."""
_DELAYS = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Seconds to wait after a later failure, and after the first, second, ... such one; the last is repeated."""
_EXIT_TIMEOUT = 5.0
"""Seconds that the exit of the program waits for a running engine."""


class Uncaught(Enum):
    """What to do when the engine fails. In any case, nothing of the record that it failed at is kept."""

    STOP = "stop"
    """The engine stops in the state ERROR; the service continues."""
    REPLACE = "replace"
    """Another worker continues from the last commit."""
    SHUT_DOWN = "shut down"
    """The engine stops, and the process receives SIGTERM."""


class Engine(ABC):
    """A thread that supervises the workers, which subclasses run in threads or processes."""

    def __init__(self, lifecycle: Lifecycle, on_uncaught: Callable[[BaseException], object], wanted: int = 1) -> None:
        self.wanted = wanted
        """The wanted number of workers, each in a thread or in a process."""
        self.paused = False
        self.error: BaseException | None = None
        self._lifecycle = lifecycle
        self._on_uncaught = on_uncaught
        self._stopping = threading.Event()
        self._state_lock = threading.RLock()
        """Reentrant, because a listener of the state may scale the app."""
        self._thread = threading.Thread(target=self._work, name="streamtopo engine", daemon=True)

    @abstractmethod
    def metrics(self) -> Metrics | None:
        """Return the metrics, in any thread; None while no worker is running."""

    @abstractmethod
    def apply_settings(self) -> None:
        """Apply `wanted` and `paused`, which may take a moment. Called from any thread."""

    @abstractmethod
    def _is_settled(self) -> bool:
        """Whether the wanted number of workers is running, with all their tasks."""

    @abstractmethod
    def _create(self) -> None:
        """Create the worker or the pool."""

    @abstractmethod
    def _run(self) -> None:
        """Run it until it stops."""

    @abstractmethod
    def _request_stop(self) -> None:
        """Ask it, if it is running, to commit and stop. Called from any thread."""

    def start(self) -> None:
        _running.add(self)
        self._thread.start()

    def scale(self, workers: int) -> None:
        with self._state_lock:
            if workers == self.wanted:
                return
            self.wanted = workers
            self._lifecycle.move(AppState.REBALANCING)
        self.apply_settings()

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.apply_settings()

    def update_state(self) -> None:
        """Set the state to RUNNING or REBALANCING. The workers call this repeatedly."""
        with self._state_lock:
            self._lifecycle.move(AppState.RUNNING if self._is_settled() else AppState.REBALANCING)

    def stop(self) -> None:
        self._lifecycle.move(AppState.PENDING_SHUTDOWN)
        self._stopping.set()
        self._request_stop()

    def join(self, timeout: float | None = None) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        quick_failures = 0
        try:
            while not self._run_one():
                quick_failures = quick_failures + 1 if time.monotonic() - self._started < _QUICK_FAILURE else 0
                self._lifecycle.move(AppState.REBALANCING)
                self._stopping.wait(_DELAYS[min(quick_failures, len(_DELAYS) - 1)])
        except BaseException as error:  # otherwise the end of the engine would go unnoticed
            self._fail(error)
        self._lifecycle.move(AppState.PENDING_SHUTDOWN)
        self._lifecycle.move(AppState.NOT_RUNNING)
        _running.discard(self)

    def _run_one(self) -> bool:
        """Run the workers once. Return whether the engine is to stop."""
        if self._stopping.is_set():
            return True
        self._started = time.monotonic()
        try:
            self._create()
            self._lifecycle.move(AppState.REBALANCING)
            if self._stopping.is_set():
                self._request_stop()
            self._run()
        except BaseException as error:
            return self._handle(error)
        return True

    def _handle(self, error: BaseException) -> bool:
        if self._lifecycle.state is AppState.CREATED:  # `start` raises it
            self._fail(error)
            return True
        if isinstance(error, StepError):
            without_engine(error)
        logger.error("the engine failed: %s", error, exc_info=error)
        answer = self._reaction_to(error)
        if answer is Uncaught.REPLACE:
            return self._stopping.is_set()
        self._fail(error)
        if answer is Uncaught.SHUT_DOWN:
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    def _reaction_to(self, error: BaseException) -> Uncaught:
        """Ask the callback. If it fails itself, it does not hide the engine's error."""
        try:
            return Uncaught(self._on_uncaught(error) or Uncaught.STOP)
        except BaseException:
            logger.exception("on_uncaught failed; the engine stops with the error that on_uncaught was called for")
            return Uncaught.STOP

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self._lifecycle.move(AppState.ERROR)


_running: set[Engine] = set()


@atexit.register
def _stop_all() -> None:
    """Stop all engines at exit: Python ends threads anywhere, and ending one inside RocksDB aborts the process."""
    engines = list(_running)
    for engine in engines:
        engine.stop()
    for engine in engines:
        engine.join(_EXIT_TIMEOUT)
