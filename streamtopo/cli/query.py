"""streamtopo query: rows of a store, from the workers that have it, or from the disk if none is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.failures import FAILED
from streamtopo.cli.opening import opened
from streamtopo.cli.options import Setting, json_option, log_option
from streamtopo.config import WorkerConfig, config_of
from streamtopo.errors import StoreError
from streamtopo.serdes import JSON

if TYPE_CHECKING:
    from streamtopo.hosting.query import Query
    from streamtopo.logs import Log
    from streamtopo.stores.views import Pair
    from streamtopo.topology import Topology


@click.command()
@click.argument("app")
@click.argument("store")
@click.argument("key", required=False)
@click.option("--from", "start", metavar="KEY", help="The first key of a range.")
@click.option("--to", "stop", metavar="KEY", help="The last key of a range, included.")
@click.option("--prefix", metavar="TEXT", help="What the bytes of the keys begin with.")
@click.option("--reverse", is_flag=True, help="Begin with the last key.")
@click.option("--max", "most", type=click.IntRange(min=0), metavar="N", help="Stop after so many rows.")
@click.option("--wait", default="5s", show_default=True, help="How long to wait for a restore or a hand-over.")
@click.option(
    "--state-dir",
    cls=Setting,
    default=WorkerConfig.state_dir,
    show_default=True,
    show_envvar=True,
    help="Where stores lie, for when no worker is at work.",
)
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
    to their changelogs. Keys are text, numbers as decimals, or else JSON. With --json a line is an object of key and
    value. A key that is not there ends with 1.

    \b
    Examples:
      streamtopo query apps.wordcount counts whale
      streamtopo query apps.wordcount counts --from a --to f --json
    """
    from streamtopo.engine.loading import load_topology

    with opened(log) as source, _asked(load_topology(app), source, state_dir, web_token, store, wait) as asked:
        rows = _row(asked, key) if key is not None else _rows(asked, **bounds)
        count = _show(asked, islice(rows, most), as_json)
    if key is not None and not count:
        click.echo(f'store "{store}" has no key "{key}"', err=True)
        click.get_current_context().exit(FAILED)


@contextmanager
def _asked(topology: Topology, log: Log, state_dir: str, token: str | None, store: str, wait: str) -> Iterator[Query]:
    from streamtopo.engine.plan import plan
    from streamtopo.hosting.query import Query
    from streamtopo.hosting.resting import Resting
    from streamtopo.hosting.stores import Stores
    from streamtopo.stores.memory import MemoryStore
    from streamtopo.stores.opening import stores_on_disk

    planned = plan(topology, log.topics())
    group = topology.application_id
    state = log.groups().get(group)
    if state is not None and state.members:
        if not state.addresses:
            raise StoreError(f'the workers of "{group}" answer no queries; start one of them with --web-port')
        yield Stores(group, lambda: planned, lambda: None, log.groups, token=token).query(store, wait)
        return
    kept = stores_on_disk(group, state_dir, config_of().memory) if Path(state_dir).is_dir() else None
    with closing(Resting(topology, planned, log, kept or (lambda specs, partition: MemoryStore()))) as resting:
        yield Query(lambda: planned, resting, store)


def _row(asked: Query, text: str) -> Iterator[Pair]:
    from streamtopo.hosting.texts import key_of

    key = key_of(asked.spec.key, text)
    value = asked.get(key)
    return iter([] if value is None else [(key, value)])


def _rows(asked: Query, start: str | None, stop: str | None, prefix: str | None, reverse: bool) -> Iterator[Pair]:
    from streamtopo.hosting.texts import key_of

    if prefix is not None:
        if start or stop or reverse:
            raise click.UsageError("--prefix goes without --from, --to and --reverse")
        return asked.prefix(prefix)
    first, last = (None if text is None else key_of(asked.spec.key, text) for text in (start, stop))
    return asked.range(first, last, reverse=reverse)


def _show(asked: Query, rows: Iterator[Pair], as_json: bool) -> int:
    from streamtopo.hosting.texts import shown

    count = 0
    for key, value in rows:
        one = {"key": shown(asked.spec.key, key), "value": shown(asked.spec.value, value)}
        line = JSON.encode(one).decode().rstrip() if as_json else "\t".join(map(_text, one.values()))
        click.echo(line)
        count += 1
    return count


def _text(value: Any) -> str:
    return value if isinstance(value, str) else JSON.encode(value).decode().rstrip()
