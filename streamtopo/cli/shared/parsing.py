"""Values of options that are parsed, such as times; what cannot be parsed is a usage error. Times as they are shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from streamtopo.errors import StreamtopoError


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def callback(context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except (ValueError, StreamtopoError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return callback


_START = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_DIGITS = 19


def time_of(text: str) -> int:
    """Return milliseconds since 1970, which may also be given. A time without a zone is in UTC."""
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; give one in UTC, such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return ((given if given.tzinfo else given.replace(tzinfo=UTC)) - _START) // _MILLISECOND


def time_text(timestamp: int) -> str:
    """Return the time in UTC, as `time_of` reads it; the number if it is outside of the calendar."""
    try:
        shown = _START + timestamp * _MILLISECOND
    except OverflowError:
        return str(timestamp)
    return shown.replace(tzinfo=None).isoformat(timespec="milliseconds" if timestamp % 1000 else "seconds") + "Z"
