"""Durations as people write them: "250ms", "10s", a timedelta, or milliseconds as an int."""

from __future__ import annotations

import re
import sys
import warnings
from datetime import timedelta

from streamtopo.errors import ConfigError, UnitWarning

type_names = "a string like '250ms', '10s', '5m', '1h' or '1d', a timedelta, or milliseconds as an int"
Duration = str | int | timedelta

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_QUESTIONED = 1000
"""A smaller number of milliseconds without a unit may have been meant as seconds."""
_PATTERN = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(ms|s|m|h|d)")
"""The number of digits is limited so that times stay in the range of clocks."""


def milliseconds(duration: Duration) -> int:
    """The duration in whole milliseconds.

    >>> milliseconds("1.5s"), milliseconds("5m"), milliseconds(20)
    (1500, 300000, 20)
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if isinstance(duration, int) and not isinstance(duration, bool):
        return duration
    match = _PATTERN.fullmatch(duration.strip()) if isinstance(duration, str) else None
    if match is None:
        raise ConfigError(f"{duration!r} is not a duration; give {type_names}")
    return round(float(match[1]) * _UNITS[match[2]])


def described_milliseconds(duration: Duration, what: str) -> int:
    """The same for a part of a topology, with a warning if a unit may have been forgotten: seconds are more usual."""
    if type(duration) is int and 0 < duration < _QUESTIONED:
        warnings.warn(
            f'{what} {duration} without a unit is {duration} milliseconds; write "{duration}s" for seconds, or '
            f'"{duration}ms" if milliseconds are meant',
            UnitWarning,
            stacklevel=_users_level(),
        )
    return milliseconds(duration)


def _users_level() -> int:
    """For a warning of the caller: how far up the first frame outside of this package is."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "streamtopo":
        level, frame = level + 1, frame.f_back
    return level + 1


def spoken(duration: int) -> str:
    """About as long as these milliseconds, as people say it.

    >>> [spoken(one) for one in (300, 4_000, 40_000, 720_000, 9_000_000, 259_200_000)]
    ['0.3 s', '4 s', '40 s', '12 min', '2.5 h', '3 days']
    """
    for unit, name, most, decimals in ((1000, "s", 10, 1), (1000, "s", 120, 0), (60_000, "min", 120, 0)):
        if duration < most * unit:
            return f"{round(duration / unit, decimals):g} {name}"
    hours = duration / 3_600_000
    return f"{round(hours, 1):g} h" if hours < 48 else f"{hours / 24:,.0f} days"
