"""The log behind a command: opened where there is one, never made by a command that only looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from difflib import get_close_matches
from pathlib import Path

import click

from streamtopo.errors import LogError
from streamtopo.logs import Log, Topic
from streamtopo.logs.opening import open_log
from streamtopo.redaction import shown_url

CREATE = "streamtopo topics create {} --partitions 4"


@contextmanager
def opened(url: str, *, create: bool = False) -> Iterator[Log]:
    if not create and missing(url):
        raise LogError(f"{absent(url)}; name another with --log, or create it: {CREATE.format('NAME')}")
    with closing(open_log(url)) as log:
        yield log


@contextmanager
def opened_or_empty(url: str) -> Iterator[Log]:
    """For listings: where there is no log there is nothing, and standard error says so."""
    nowhere = missing(url)
    if nowhere:
        click.echo(f"{absent(url)}; it comes with its first topic: {CREATE.format('NAME')}", err=True)
    with closing(open_log("memory:" if nowhere else url)) as log:
        yield log


def missing(url: str) -> bool:
    """An embedded log whose database is not there, which opening it would create."""
    directory = directory_of(url)
    return directory is not None and not directory.is_file() and not (directory / "log.db").exists()


def directory_of(url: str) -> Path | None:
    """Of an embedded log; None for others."""
    scheme, _, rest = url.partition(":")
    return Path(rest.partition("?")[0] or ".streamtopo") if scheme == "embedded" else None


def absent(url: str) -> str:
    return f'there is no log at "{shown_url(url)}" yet'


def existing(log: Log, url: str, name: str, *, to_write: bool = False) -> Topic:
    topics = log.topics()
    if name in topics:
        return topics[name]
    close = get_close_matches(name, topics, 1)
    guess = f'did you mean "{close[0]}"? Else ' if close else ""
    hint = f"create it: {CREATE.format(name)}" if to_write else "list the topics: streamtopo topics list"
    raise LogError(f'there is no topic "{name}" in {shown_url(url)}; {guess}{hint}')


def complete_topic(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _names(context, incomplete, lambda log: log.topics())


def complete_group(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _names(context, incomplete, lambda log: log.groups())


def _names(context: click.Context, incomplete: str, find: Callable[[Log], Iterable[str]]) -> list[str]:
    try:
        with opened(context.params["log"]) as log:
            return [name for name in find(log) if name.startswith(incomplete)]
    except Exception:  # whatever goes wrong must not end up in the user's prompt
        return []
