"""Open files: a store on disk needs several of them, and a process may only open a limited number."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from streamtopo.errors import StoreFailed

A_TASK = 10
"""Seven for an empty store of RocksDB, and some for its files."""
SPARE = 48
"""Left for the log, for queries and for the program itself."""


def raise_limit() -> None:
    """For a process that only runs a worker: let it open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def lacking(tasks: int) -> str | None:
    """The error if there are not enough files for this many more tasks with state on disk."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _opened() + tasks * A_TASK + SPARE
    if limit == resource.RLIM_INFINITY or needed <= limit:
        return None
    return (
        f"{tasks:,} more task{'' if tasks == 1 else 's'} with state on disk need{'s' if tasks == 1 else ''} about "
        f"{needed:,} open files in this process, and its limit is {limit:,}; raise the limit (ulimit -n {2 * needed}, "
        "LimitNOFILE= in systemd), or share the tasks among more workers"
    )


def check() -> None:
    """Call it before a task is opened; else the next code that opens any file fails, with an unclear error."""
    if reason := lacking(1):
        raise StoreFailed(reason)


def _opened() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(folder))
    return 0
