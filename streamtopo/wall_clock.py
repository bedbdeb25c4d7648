"""The time of day, as the timestamps of records have it."""

from __future__ import annotations

import time


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
