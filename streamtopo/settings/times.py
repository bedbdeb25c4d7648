"""Points in time as people write and read them: in UTC, in the form of ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_DIGITS = 19
_DATE = len("20260131")
"""So many digits may mean a date or milliseconds; so they are refused."""


def time_of(text: str) -> int:
    """Return milliseconds since 1970, which may also be given. A time without a zone is in UTC."""
    digits = text.isdecimal() and text.isascii()
    if digits and len(text) <= _MAX_DIGITS and len(text) != _DATE:
        return int(text)
    try:
        if digits:
            raise ValueError
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text[:80]!r} is not a time; give one in UTC, such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return ((given if given.tzinfo else given.replace(tzinfo=UTC)) - _START) // _MILLISECOND


def time_text(timestamp: int) -> str:
    """Return the time in UTC, as `time_of` reads it; the number if it is outside of the calendar."""
    try:
        shown = _START + timestamp * _MILLISECOND
    except OverflowError:
        return str(timestamp)
    return shown.replace(tzinfo=None).isoformat(timespec="milliseconds" if timestamp % 1000 else "seconds") + "Z"
