"""Runs a worker as the main work of a process, until a signal stops it or a step fails."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Self

from streamtopo.engine.worker.interpreter import rare_collection

if TYPE_CHECKING:
    from streamtopo.engine.worker.worker import Worker

logger = logging.getLogger("streamtopo")

_LONGEST_WAIT = 0.1
"""Seconds: without new records the loop still checks clocks and signals this often."""
_CLEANING = 10
"""Milliseconds of cleaning at a time: in turns without work, and under load once in this many seconds:"""
_BETWEEN_CLEANINGS = 1.0
_SOONER = 0.2
"""The same while there is more to clean, if the pass has taken no longer than a short one:"""
_SHORT_PASS = 2.0
_LONGEST_CLEANING = 20.0
"""A limit: after long turns, cleaning takes up to this many times as long as usual."""


def run(worker: Worker, *, each_turn: Callable[[], object] = lambda: None, signals: bool = True) -> None:
    """`each_turn` is called after every turn.

    Without `signals`, the caller handles signals and uses `Ending`.
    """
    cleaning = _Cleaning(worker)
    ending = stopping_on_signals(worker.stop, worker.config.close_timeout / 1000) if signals else nullcontext()
    with ending, rare_collection:
        try:
            while not worker.stopping:
                worked = worker.run_once(_LONGEST_WAIT)
                cleaning.clean(idle=not worked)
                each_turn()
        except BaseException:
            worker.abandon()
            raise
        worker.close()


class _Cleaning:
    """Lets the log clean up between turns."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._began = self._ended = time.monotonic()
        self._pause = _BETWEEN_CLEANINGS

    def clean(self, *, idle: bool) -> None:
        waited = time.monotonic() - self._ended
        if not idle and waited <= self._pause:
            return
        # A turn may take longer than the pause should.
        longer = 1.0 if idle else min(_LONGEST_CLEANING, waited / max(self._pause, 0.001))
        more = self._worker.log.clean(_CLEANING * longer, self._worker.config.compaction_memory)
        self._ended = time.monotonic()
        self._began = self._began if more else self._ended
        self._pause = cleaning_pause(self._ended - self._began) if more else _BETWEEN_CLEANINGS


def cleaning_pause(age: float) -> float:
    """Shorter when a pass has taken long already: up to a third of the time is used for cleaning.

    Usually a twentieth is enough. A changelog to which every record writes would grow faster than that.
    """
    return max(2 * _CLEANING / 1000, _SOONER * _SHORT_PASS / max(age, _SHORT_PASS))


@contextmanager
def stopping_on_signals(stop: Callable[[], object], within: float) -> Iterator[None]:
    """The first SIGTERM or SIGINT calls `stop`; the second has its usual effect. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def once(number: int, frame: FrameType | None) -> None:
        restore()
        ending.begin(stop)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    with Ending(within) as ending:
        for number in before:
            signal.signal(number, once)
        try:
            yield
        finally:
            restore()


class Ending:
    """Ends the process if it still runs this many seconds after `begin`: a step hangs, or a cluster is not available.

    This is the same as a kill: uncommitted work is done again by the next worker. Leaving the block cancels it.
    """

    def __init__(self, within: float, before: Callable[[], object] = lambda: None) -> None:
        """`before` is called just before the process ends."""
        self._within = within
        self._before = before
        self._timer = threading.Timer(within, self._end)
        self._timer.daemon = True
        self._begun = False

    def begin(self, stop: Callable[[], object]) -> None:
        """Call `stop`, and start the timer if this is the first call; may be called by signal handlers."""
        stop()
        if not self._begun:
            self._begun = True
            self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        logger.error(
            "still running %g s after the signal; ending without a commit: uncommitted work is done again",
            self._within,
        )
        self._before()
        os._exit(1)
