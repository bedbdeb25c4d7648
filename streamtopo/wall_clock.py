"""The time of day, as the timestamps of records have it, and a clock that is never set."""

from __future__ import annotations

import time


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def steady_clock() -> float:
    """Milliseconds of a clock that is never set; not rounded, because a pause may be only one or two long."""
    return time.monotonic() * 1000
