"""streamtopo query: rows of a store, from the workers that have it, or from the disk if none is at work."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.failures import FAILED
from streamtopo.cli.opening import opened
from streamtopo.cli.options import Setting, json_option, log_option, worker_option
from streamtopo.cli.tables import shown_json
from streamtopo.config import config_of
from streamtopo.stores import Kind

if TYPE_CHECKING:
    from streamtopo.hosting.query import Query
    from streamtopo.stores import StoreSpec

Row = dict[str, Any]
"""As it is shown."""


@click.command()
@click.argument("app")
@click.argument("store")
@click.argument("key", required=False)
@click.option("--from", "start", metavar="KEY", help="The first key of a range; of windows and sessions, a time.")
@click.option("--to", "stop", metavar="KEY", help="The last one, included.")
@click.option("--as-of", type=int, metavar="TIME", help="What KEY had then, of a store with versions.")
@click.option("--prefix", metavar="TEXT", help="What the bytes of the keys begin with.")
@click.option("--reverse", is_flag=True, help="Begin with the last key.")
@click.option("--max", "most", type=click.IntRange(min=0), metavar="N", help="Stop after so many rows.")
@click.option("--wait", default="5s", show_default=True, help="How long to wait for a restore or a hand-over.")
@worker_option("state_dir", "Where stores lie, for when no worker is at work.")
@click.option("--web-token", cls=Setting, show_envvar=True, help="What the workers want to be shown.")
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
    """Show the row of KEY in STORE, or a range of rows, or all of them, as of the last commit.

    Workers answer that were started with --web-port. If none is at work, the stores are read from the disk, brought up
    to their changelogs. Keys are text, numbers as decimals, or else JSON; times are milliseconds. With --json a line is
    an object of key and value, and of a window's start and end. A key that is not there ends with 1.

    \b
    Examples:
      streamtopo query apps.wordcount counts whale
      streamtopo query apps.wordcount counts --from a --to f --json
      streamtopo query apps.sensors hot-minutes sensor-1 --from 1700000000000
    """
    from streamtopo.engine.loading import load_topology
    from streamtopo.hosting.anywhere import asked_anywhere

    config, topology = config_of(state_dir=state_dir), load_topology(app)
    with (
        opened(log) as source,
        asked_anywhere(topology, source, config, store, wait=wait, token=web_token) as asked,
    ):
        rows = _rows(asked, **bounds) if key is None else _of_key(asked, key, **bounds)
        count = _show(islice(rows, most), as_json)
    if key is not None and not count:
        click.echo(f'store "{store}" has no key "{key}"', err=True)
        click.get_current_context().exit(FAILED)


def _of_key(
    asked: Query, text: str, start: str | None, stop: str | None, prefix: str | None, reverse: bool, as_of: int | None
) -> Iterator[Row]:
    from streamtopo.hosting.texts import key_of, shown_row, shown_version

    spec, key = asked.spec, key_of(asked.spec.key, text)
    if spec.timed and prefix is None and as_of is None:
        ask = asked.session if spec.kind is Kind.SESSION else asked.window
        found = ask(key, *_bounds(spec, start, stop))
        return (shown_row(spec, *pair) for pair in (reversed(found) if reverse else found))
    if start or stop or prefix or reverse:
        raise click.UsageError("a KEY goes without --prefix, and without --from, --to and --reverse, but of windows")
    if as_of is not None:
        version = asked.versioned(key, as_of)
        return iter([] if version is None else [shown_version(spec, key, version)])
    value = asked.get(key)
    return iter([] if value is None else [shown_row(spec, key, value)])


def _rows(
    asked: Query, start: str | None, stop: str | None, prefix: str | None, reverse: bool, as_of: int | None
) -> Iterator[Row]:
    from streamtopo.hosting.texts import shown_row

    if as_of is not None:
        raise click.UsageError("--as-of needs a KEY")
    if prefix is None:
        pairs = asked.range(*_bounds(asked.spec, start, stop), reverse=reverse)
    elif start or stop or reverse:
        raise click.UsageError("--prefix goes without --from, --to and --reverse")
    else:
        pairs = asked.prefix(prefix)
    return (shown_row(asked.spec, *pair) for pair in pairs)


def _bounds(spec: StoreSpec, *texts: str | None) -> list[Any]:
    from streamtopo.hosting.texts import bound_of

    return [None if text is None else bound_of(spec, text) for text in texts]


def _show(rows: Iterator[Row], as_json: bool) -> int:
    count = 0
    for row in rows:
        click.echo(shown_json(row) if as_json else "\t".join(map(_text, row.values())))
        count += 1
    return count


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown_json(value)
