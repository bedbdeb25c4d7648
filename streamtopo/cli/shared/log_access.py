"""Opens the log of a command. A command that only reads never creates one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from difflib import get_close_matches

import click
from click.core import ParameterSource

from streamtopo.errors import LogError
from streamtopo.logs import Log, Topic
from streamtopo.logs.opening import log_exists, open_log, shown_log

CREATE = "streamtopo topics create {} --partitions 4"


@contextmanager
def opened_log(url: str, *, create: bool = False) -> Iterator[Log]:
    if not create and not log_exists(url):
        create_it = on_same_log(CREATE.format("NAME"), url)
        raise LogError(
            f"{no_log_message(url)}; start a worker, which creates it, or give another one with --log, or create it: "
            f"{create_it}"
        )
    with closing(open_log(url)) as log:
        yield log


@contextmanager
def opened_log_or_empty(url: str) -> Iterator[Log]:
    """For listings: if there is no log, yield an empty one, and print a note to standard error."""
    exists = log_exists(url)
    if not exists:
        create_it = on_same_log(CREATE.format("NAME"), url)
        click.echo(f"{no_log_message(url)}; it is created with its first topic: {create_it}", err=True)
    with closing(open_log(url if exists else "memory:")) as log:
        yield log


def no_log_message(url: str) -> str:
    return f'there is no log at "{shown_log(url)}" yet'


def existing_topic(log: Log, url: str, name: str, *, to_write: bool = False) -> Topic:
    topics = log.topics()
    if name in topics:
        return topics[name]
    close = get_close_matches(name, topics, 1)
    guess = f'did you mean "{close[0]}"? If not, ' if close else ""
    what, command = ("create it", CREATE.format(name)) if to_write else ("list the topics", "streamtopo topics list")
    raise LogError(f'there is no topic "{name}" in {shown_log(url)}; {guess}{what}: {on_same_log(command, url)}')


def on_same_log(command: str, url: str) -> str:
    """Return a command to show in a message. It has --log if the running command was given that option."""
    context = click.get_current_context(silent=True)
    given = context is not None and context.get_parameter_source("log") is ParameterSource.COMMANDLINE
    shown = shown_log(url)
    return f"{command} --log {shlex.quote(shown) if shown == url else 'URL'}" if given else command


def complete_topic(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _names(context, incomplete, lambda log: log.topics())


def complete_group(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _names(context, incomplete, lambda log: log.groups())


def _names(context: click.Context, incomplete: str, find: Callable[[Log], Iterable[str]]) -> list[str]:
    try:
        with opened_log(context.params["log"]) as log:
            return [name for name in find(log) if name.startswith(incomplete)]
    except Exception:  # an error must not appear in the user's prompt
        return []
