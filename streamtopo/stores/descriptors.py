"""Open files: a store on disk needs several of them, and a process may have only so many."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from streamtopo.errors import StoreFailed

A_TASK = 10
"""Seven for an empty store of RocksDB, and some for its files."""
SPARE = 48
"""What the log, queries and the program itself are left."""


def raise_limit() -> None:
    """For a process that is a worker's alone: it may open as many files as the system allows it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def lacking(tasks: int) -> str | None:
    """What to say if there are not enough for so many more tasks on disk."""
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
    """Before one more task is opened: without this, whoever is next to open a file would fail, in its own words."""
    if reason := lacking(1):
        raise StoreFailed(reason)


def _opened() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(folder))
    return 0
