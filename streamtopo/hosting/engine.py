"""The engine beside a program: at work in a thread of its own, and replaced when it fails and that is wanted."""

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
from streamtopo.hosting.states import AppState, Life

logger = logging.getLogger("streamtopo")

_SOON = 5.0
"""A worker that fails within so many seconds is replaced later and later."""
_DELAYS = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Seconds to wait after each such failure; in the end always the last."""
_PARTING = 5.0
"""Seconds that the end of the program waits for an engine that is still at work."""


class Uncaught(Enum):
    """What follows when the engine fails. Nothing of the record that it failed at is kept in any case."""

    STOP = "stop"
    """The engine ends, in the state ERROR; the service goes on."""
    REPLACE = "replace"
    """Another worker begins at the last commit."""
    SHUT_DOWN = "shut down"
    """The engine ends, and the process is sent SIGTERM, as if by its administrator."""


class Engine(ABC):
    """The thread that sees to the work. What kind of work that is, the subclasses say."""

    def __init__(self, life: Life, on_uncaught: Callable[[BaseException], object], wanted: int = 1) -> None:
        self.wanted = wanted
        """Workers, each in a thread or in a process."""
        self.paused = False
        self.error: BaseException | None = None
        self._life = life
        self._on_uncaught = on_uncaught
        self._stopping = threading.Event()
        self._looking = threading.RLock()
        """Again by the same thread, if what watches the state scales the app."""
        self._thread = threading.Thread(target=self._work, name="streamtopo engine", daemon=True)

    @abstractmethod
    def metrics(self) -> Metrics | None:
        """For any thread; None while nothing works."""

    @abstractmethod
    def change(self) -> None:
        """Look at what is `wanted`, and whether it is `paused`; from any thread, and it may take a moment."""

    @abstractmethod
    def _settled(self) -> bool:
        """Whether there are as many as are wanted, with all their tasks at work."""

    @abstractmethod
    def _begin(self) -> None:
        """Make what is to work."""

    @abstractmethod
    def _run(self) -> None:
        """Let it work to its end."""

    @abstractmethod
    def _end(self) -> None:
        """Have it commit and come to its end, if it is at work; from any thread."""

    def start(self) -> None:
        _at_work.add(self)
        self._thread.start()

    def scale(self, workers: int) -> None:
        with self._looking:
            if workers == self.wanted:
                return
            self.wanted = workers
            self._life.move(AppState.REBALANCING)
        self.change()

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.change()

    def look(self) -> None:
        """Say whether it has settled; to be called by whatever works, again and again."""
        with self._looking:
            self._life.move(AppState.RUNNING if self._settled() else AppState.REBALANCING)

    def stop(self) -> None:
        self._life.move(AppState.PENDING_SHUTDOWN)
        self._stopping.set()
        self._end()

    def join(self, timeout: float | None = None) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        quick = 0
        try:
            while not self._run_one():
                quick = quick + 1 if time.monotonic() - self._started < _SOON else 0
                self._life.move(AppState.REBALANCING)
                self._stopping.wait(_DELAYS[min(quick, len(_DELAYS) - 1)])
        except BaseException as error:  # or nothing would say that the engine is gone
            self._fail(error)
        self._life.move(AppState.PENDING_SHUTDOWN)
        self._life.move(AppState.NOT_RUNNING)
        _at_work.discard(self)

    def _run_one(self) -> bool:
        """True if the work is over."""
        if self._stopping.is_set():
            return True
        self._started = time.monotonic()
        try:
            self._begin()
            self._life.move(AppState.REBALANCING)
            if self._stopping.is_set():
                self._end()
            self._run()
        except BaseException as error:
            return self._failed(error)
        return True

    def _failed(self, error: BaseException) -> bool:
        if self._life.state is AppState.CREATED:  # whoever started it is told
            self._fail(error)
            return True
        logger.error("the engine failed: %s", error, exc_info=error)
        answer = self._what_follows(error)
        if answer is Uncaught.REPLACE:
            return self._stopping.is_set()
        self._fail(error)
        if answer is Uncaught.SHUT_DOWN:
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    def _what_follows(self, error: BaseException) -> Uncaught:
        """A callback that fails itself does not hide what it was called for."""
        try:
            return Uncaught(self._on_uncaught(error) or Uncaught.STOP)
        except BaseException:
            logger.exception("on_uncaught failed; the engine stops with the error that it was called for")
            return Uncaught.STOP

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self._life.move(AppState.ERROR)


_at_work: set[Engine] = set()


@atexit.register
def _end_all() -> None:
    """Python stops threads wherever they are when it ends: one that is inside of RocksDB then aborts the process."""
    engines = list(_at_work)
    for engine in engines:
        engine.stop()
    for engine in engines:
        engine.join(_PARTING)
