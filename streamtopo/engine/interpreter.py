"""Settings of the whole interpreter, changed while any worker of the process is at work, or in its own process."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable

_SWITCH_INTERVAL = 0.0005
"""Seconds; at the default, ten times as long, a busy engine keeps an event loop beside it waiting for 10 ms."""


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As glibc's malloc.h has them."""
_LARGE = 128 << 10
"""Bytes; what is larger has pages of its own. It is glibc's own figure, which grows with every large block freed."""


def give_memory_back() -> None:
    """For a process that is a worker's alone: large blocks go back to the machine when they are freed.

    Arrow's and glibc's own ways keep about 40 MB of them for the next one.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _LARGE)
        mallopt(_MMAP_THRESHOLD, _LARGE)


class WhileUsed:
    """A context that several threads can be in: the first one in changes a setting, the last one out undoes that."""

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


quiet_collector = WhileUsed(_collect_seldom)
"""Chunks make many objects that die without cycles; looking for cycles among them costs half of the time."""
brisk_switching = WhileUsed(_switch_often)
"""Threads beside the engine's, such as that of an event loop, have their turn soon."""
