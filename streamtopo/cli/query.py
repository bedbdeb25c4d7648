"""streamtopo query: show rows of a store, from the running workers, or from the disk if there are none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.shared.failures import FAILED
from streamtopo.cli.shared.log_access import opened_log
from streamtopo.cli.shared.options import Setting, json_option, log_option, worker_option
from streamtopo.cli.shared.parsing import parsed
from streamtopo.cli.shared.tables import NONE, json_text, show_lines
from streamtopo.settings.config import config_of
from streamtopo.settings.durations import spoken
from streamtopo.settings.times import time_of, time_text
from streamtopo.stores import Kind

if TYPE_CHECKING:
    from streamtopo.hosting.queries.query import Query
    from streamtopo.stores import StoreSpec

_TIMES = ("start", "end", "timestamp", "valid_to")
Row = dict[str, Any]
"""A row as it is printed."""


@click.command()
@click.argument("app")
@click.argument("store")
@click.argument("key", required=False)
@click.option("--from", "start", metavar="KEY", help="First key of the range; for windows and sessions, a time.")
@click.option("--to", "stop", metavar="KEY", help="Last key (or time) of the range, inclusive.")
@click.option(
    "--as-of",
    metavar="TIME",
    callback=parsed(time_of),
    help="Show the value of KEY at this time (versioned stores).",
)
@click.option("--prefix", metavar="TEXT", help="Show only the keys whose bytes start with TEXT.")
@click.option("--reverse", is_flag=True, help="Start with the last key.")
@click.option("--max", "most", type=click.IntRange(min=0), metavar="N", help="Stop after this many rows.")
@click.option(
    "--wait",
    default="5s",
    metavar="DURATION",
    show_default=True,
    help="How long to wait while rows are restored or move to another worker.",
)
@worker_option("state_dir", "Directory of the stores, which are read if no worker is running.")
@click.option("--web-token", cls=Setting, metavar="TOKEN", show_envvar=True, help="Token that the workers require.")
@json_option
@log_option
def query(
    app: str,
    store: str,
    key: str | None,
    wait: str,
    state_dir: str,
    web_token: str | None,
    as_json: bool,
    log: str,
    most: int | None,
    **bounds: Any,
) -> None:
    """Show the row of KEY, a range of rows, or all rows of STORE.

    Rows are as of the last commit. Workers answer if they were started with --web-port. If no worker is running, the
    command reads the stores on the disk, and the changes in their changelogs. Write text keys as they are, numbers as
    decimals, and other types as JSON. Write times as 2026-01-31T12:00:00Z, or in milliseconds since 1970.

    Rows are shown with the start and end of their windows: on a terminal as a table, in a pipe as tab-separated lines.
    With --json, each line is an object, with times in milliseconds. If there are no rows, standard error says so. The
    exit code is 1 if KEY does not exist.

    \b
    Examples:
      streamtopo query apps.wordcount counts whale
      streamtopo query apps.wordcount counts --from a --to f --json
      streamtopo query apps.sensors averages sensor-1 --from 2026-01-31T12:00:00Z
    """
    from streamtopo.engine.loading import load_topology
    from streamtopo.hosting.sources.external_query import open_query

    config, topology = config_of(state_dir=state_dir), load_topology(app)
    if bounds["as_of"] is not None and store in topology.stores:
        _check_versions(topology.stores[store])
    with (
        opened_log(log) as source,
        open_query(topology, source, config, store, wait=wait, token=web_token) as store_query,
    ):
        rows = _rows(store_query, **bounds) if key is None else _rows_of_key(store_query, key, **bounds)
        if _show(islice(rows, most), as_json) or most == 0:
            return
        bounded = any(value is not None for name, value in bounds.items() if name != "reverse")
        click.echo(_nothing_found(store_query, key, bounded), err=True)
    if key is not None:
        click.get_current_context().exit(FAILED)


def _nothing_found(store_query: Query, key: str | None, bounded: bool) -> str:
    from streamtopo.hosting.queries.text_format import parse_key

    spec = store_query.spec
    if key is None:
        return f'store "{spec.name}" {"has no rows in this range" if bounded else "is empty"}'
    said = f'store "{spec.name}" has no key "{key}"{" at this time" if bounded else ""}'
    kept_from = store_query.kept_from(parse_key(spec.key, key)) if spec.timed else 0
    if not kept_from:
        return said
    rows, limit = ("sessions", "ended") if spec.kind is Kind.SESSION else ("windows", "started")
    kept = f"it keeps {rows} for {spoken(spec.retention)}: those that {limit} before {time_text(kept_from)} are gone"
    return f"{said}; {kept}"


def _check_versions(spec: StoreSpec) -> None:
    if spec.kind is not Kind.VERSIONED:
        instead = "--from and --to show its windows at a time" if spec.timed else "without it, the current row is shown"
        raise click.UsageError(f'store "{spec.name}" keeps no versions, so --as-of cannot be used; {instead}')


def _rows_of_key(
    store_query: Query,
    text: str,
    start: str | None,
    stop: str | None,
    prefix: str | None,
    reverse: bool,
    as_of: int | None,
) -> Iterator[Row]:
    from streamtopo.hosting.queries.text_format import parse_key, row_to_json, version_to_json

    spec, key = store_query.spec, parse_key(store_query.spec.key, text)
    if spec.timed and prefix is None and as_of is None:
        ask = store_query.session if spec.kind is Kind.SESSION else store_query.window
        found = ask(key, *_bounds(spec, start, stop))
        return (row_to_json(spec, *pair) for pair in (reversed(found) if reverse else found))
    if start or stop or prefix or reverse:
        raise click.UsageError(
            "a KEY cannot be combined with --prefix, or (except for windows and sessions) --from, --to and --reverse"
        )
    if as_of is not None:
        version = store_query.versioned(key, as_of)
        return iter([] if version is None else [version_to_json(spec, key, version)])
    value = store_query.get(key)
    return iter([] if value is None else [row_to_json(spec, key, value)])


def _rows(
    store_query: Query, start: str | None, stop: str | None, prefix: str | None, reverse: bool, as_of: int | None
) -> Iterator[Row]:
    from streamtopo.hosting.queries.text_format import row_to_json

    if as_of is not None:
        raise click.UsageError("--as-of needs a KEY")
    if prefix is None:
        pairs = store_query.range(*_bounds(store_query.spec, start, stop), reverse=reverse)
    elif start or stop or reverse:
        raise click.UsageError("--prefix cannot be combined with --from, --to and --reverse")
    else:
        pairs = store_query.prefix(prefix)
    return (row_to_json(store_query.spec, *pair) for pair in pairs)


def _bounds(spec: StoreSpec, *texts: str | None) -> list[Any]:
    from streamtopo.hosting.queries.text_format import parse_bound

    return [None if text is None else parse_bound(spec, text) for text in texts]


def _show(rows: Iterator[Row], as_json: bool) -> bool:
    """Return whether there are any."""
    first = next(rows, None)
    if first is None:
        return False
    found = chain([first], rows)
    if as_json:
        for row in found:
            click.echo(json_text(row))
    else:
        show_lines(tuple(first), ([_text(*pair) for pair in row.items()] for row in found))
    return True


def _text(name: str, value: Any) -> str:
    if name in _TIMES:
        return NONE if value is None else time_text(value)
    return value if isinstance(value, str) else json_text(value)
