"""Values of options that are parsed, such as times; what cannot be parsed is a usage error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
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


def time_of(text: str) -> int:
    """Return milliseconds. A time without a zone is in UTC."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; give one such as 2026-01-31 or 2026-01-31T12:00") from None
    return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
