"""Commands of a Faust app with an attached topology: show rows of its stores, and draw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import click
import faust
from faust.cli import AppCommand, argument, option

from streamtopo.drawing import FORMATS
from streamtopo.errors import StreamtopoError
from streamtopo.hosting import Host
from streamtopo.hosting.queries.query import Query
from streamtopo.hosting.queries.text_format import parse_key, row_to_json
from streamtopo.hosting.sources.external_query import open_query
from streamtopo.logs.opening import open_log
from streamtopo.serdes.exact_json import dumps
from streamtopo.serdes.json_types import to_json
from streamtopo.stores import Kind
from streamtopo.stores.views.key_value import Pair

if TYPE_CHECKING:
    from streamtopo.integrations.faust.attachment import Attached


def add_commands(app: faust.App, name: str, attached: Attached) -> None:
    """The commands get the names of the functions, after the given name."""

    async def query(self: AppCommand, store: str, key: str | None, wait: str) -> None:
        """Show the row of KEY in STORE, its windows or sessions, or all rows, as JSON."""
        try:
            rows = _found(attached.host(), store, key, wait)
            first = next(rows, None)
            if first is None and key is not None:
                _fail(f'store "{store}" has no key "{key}"')
            for row in [] if first is None else chain([first], rows):
                self.say(row)
        except StreamtopoError as error:
            _fail(str(error))

    async def topology(self: AppCommand, form: str) -> None:
        """Draw the topology."""
        self.say(FORMATS[form](attached.topology))

    arguments: dict[Any, list[Any]] = {
        query: [argument("store"), argument("key", required=False), option("--wait", default="5s", show_default=True)],
        topology: [option("--format", "form", default="text", type=click.Choice(list(FORMATS)), show_default=True)],
    }
    for command, options in arguments.items():
        command.__name__ = f"{name}_{command.__name__}"
        app.command(*options)(command)


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(1)


def _found(host: Host, store: str, key: str | None, wait: str) -> Iterator[str]:
    with (
        closing(open_log(str(host.log))) as log,
        open_query(host.topology, log, host.config, store, wait=wait, token=host.settings.token) as asked,
    ):
        for pair in _rows(asked, key):
            yield dumps(row_to_json(asked.spec, *pair), to_json).decode()


def _rows(asked: Query, text: str | None) -> Iterable[Pair]:
    if text is None:
        return asked.all()
    spec, key = asked.spec, parse_key(asked.spec.key, text)
    if spec.timed:
        return asked.session(key) if spec.kind is Kind.SESSION else asked.window(key)
    value = asked.get(key)
    return [] if value is None else [(key, value)]
