"""Values of options that are parsed, such as times; what cannot be parsed is a usage error."""

from __future__ import annotations

from collections.abc import Callable
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
