"""Settings of the whole interpreter, changed while a worker of the process is running."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable

_SWITCH_INTERVAL = 0.0005
"""Seconds. With the default, which is ten times as long, an event loop next to a busy engine waits 10 ms."""


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""From malloc.h of glibc."""
_LARGE = 128 << 10
"""Bytes. Larger blocks get their own pages. This is the default of glibc, which otherwise raises it by itself."""


def give_memory_back() -> None:
    """Return large blocks to the machine when they are freed; for a process that only runs a worker.

    By default, Arrow and glibc keep about 40 MB for later use.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _LARGE)
        mallopt(_MMAP_THRESHOLD, _LARGE)


class WhileUsed:
    """A context for several threads: the first to enter changes a setting, the last to leave restores it."""

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change = change
        self._users = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._undo = self._change()
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._undo()


def _collect_seldom() -> Callable[[], None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)

    def undo() -> None:
        gc.set_threshold(*before)
        gc.unfreeze()

    return undo


def _switch_often() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_INTERVAL))
    return lambda: sys.setswitchinterval(before)


rare_collection = WhileUsed(_collect_seldom)
"""Chunks create many objects without cycles; searching them for cycles would take half of the time."""
frequent_switching = WhileUsed(_switch_often)
"""Other threads than the engine's, for example that of an event loop, do not wait for long."""
