"""A worker as the main work of a process: until a signal stops it, or a step fails."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING

from streamtopo.engine.interpreter import quiet_collector

if TYPE_CHECKING:
    from streamtopo.engine.worker import Worker

logger = logging.getLogger("streamtopo")

_LONGEST_WAIT = 0.1
"""Seconds without news after which the loop looks at clocks and signals all the same."""
_CLEANING = 10
"""Milliseconds of cleaning at a time: in turns without work, and under load once in so many seconds:"""
_BETWEEN_CLEANINGS = 1.0
_SOONER = 0.2
"""The same while there is more to do, that a busy changelog does not grow faster than it is compacted."""
_LAST = 30.0
"""Seconds from a signal to the end, also where a step hangs or the cluster is away."""


def run(worker: Worker, *, each_turn: Callable[[], object] = lambda: None, signals: bool = True) -> None:
    """`each_turn` is called after every turn, to look at what the worker has done.

    Without `signals` they are left to somebody else, who calls `worker.stop`.
    """
    clean_at = time.monotonic() + _BETWEEN_CLEANINGS
    with stopping_on_signals(worker.stop) if signals else nullcontext(), quiet_collector:
        try:
            while not worker.stopping:
                worked = worker.run_once(_LONGEST_WAIT)
                if not worked or time.monotonic() > clean_at:
                    more = worker.log.clean(_CLEANING)
                    clean_at = time.monotonic() + (_SOONER if more else _BETWEEN_CLEANINGS)
                each_turn()
        except BaseException:
            worker.abandon()
            raise
        worker.close()


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def stopping_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """The first SIGTERM or SIGINT calls `stop`; the second has its usual effect. Only in a process's main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    too_late = threading.Timer(_LAST, _end)
    too_late.daemon = True

    def once(number: int, frame: FrameType | None) -> None:
        restore()
        stop()
        too_late.start()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    for number in before:
        signal.signal(number, once)
    try:
        yield
    finally:
        too_late.cancel()
        restore()


def _end() -> None:
    """As good as a kill: who comes next does again what was not committed."""
    logger.error("not stopped %.0f s after the signal; ending without a commit, so nothing is lost", _LAST)
    os._exit(1)
