"""The arguments of commands about dead letters: whose letters, and which of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from streamtopo.cli.shared.declared_types import NUMBERS, DeclaredTypes, declared_types
from streamtopo.cli.shared.log_access import complete_topic, existing_topic, opened_log
from streamtopo.cli.shared.options import Setting
from streamtopo.cli.shared.parsing import parsed
from streamtopo.dead_letters.letters import Letter, dead_letter_topic
from streamtopo.dead_letters.selection import Place, Selection
from streamtopo.errors import ConfigError, SerdeError, TopologyError
from streamtopo.logs import Log, Topic
from streamtopo.settings.durations import milliseconds
from streamtopo.settings.times import time_of
from streamtopo.topology import Topology
from streamtopo.wall_clock import wall_clock

NO_APP = "-"

# -- whose letters

app_argument = click.argument("app")
dead_letter_topic_option = click.option(
    "--dead-letter-topic",
    cls=Setting,
    metavar="NAME",
    shell_complete=complete_topic,
    show_envvar=True,
    help="The topic with the dead letters. Default: dlq.APPLICATION.",
)


class Letters(NamedTuple):
    """A topic of dead letters, and the application if there is one."""

    log: Log
    topic: Topic
    topology: Topology | None

    def types(self, letter: Letter) -> DeclaredTypes:
        """Those of its source."""
        return DeclaredTypes() if letter.source is None else self.types_of(letter.source.topic)

    def types_of(self, source: str) -> DeclaredTypes:
        if self.topology is None:
            return DeclaredTypes()
        try:
            return declared_types(self.topology, source)
        except TopologyError:  # it does not read this topic, or not any more
            return DeclaredTypes()


@contextmanager
def opened_letters(app: str, name: str | None, url: str) -> Iterator[Letters]:
    topology = _topology(app)
    if topology is None and name is None:
        raise click.UsageError(f"without an application ({NO_APP}), give the topic: --dead-letter-topic NAME")
    usual = "" if topology is None else dead_letter_topic(topology.application_id)
    if topology is not None and name is not None:
        name = dead_letter_topic(topology.application_id, name)
    with opened_log(url) as log:
        if name in (None, usual):
            yield Letters(log, log.topics().get(usual, Topic(usual, 0)), topology)  # without it, nothing has failed yet
        else:
            yield Letters(log, existing_topic(log, url, name or ""), topology)


def _topology(app: str) -> Topology | None:
    if app == NO_APP:
        return None
    from streamtopo.engine.loading import load_topology

    return load_topology(app)


# -- which letters


_PLACE = re.compile(r"(?:([^/]+)/)?(\d+)/(\d+)")


def place_of(text: str) -> Place:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a place; give PARTITION/OFFSET of the letter, or TOPIC/PARTITION/OFFSET of its record"
        )
    return Place(int(match[2]), int(match[3]), match[1])


def _moment(text: str) -> int:
    """A time, or a duration before now."""
    try:
        return wall_clock() - milliseconds(text)
    except ConfigError:
        pass
    try:
        return time_of(text)
    except ValueError as error:
        raise ValueError(f"{error}; or a duration before now, such as 2h") from None


_OPTIONS = (
    click.option("--node", metavar="NAME", help="Only letters of this node."),
    click.option("--exception", metavar="NAME", help="Only this class of exceptions, with or without its module."),
    click.option("--topic", metavar="NAME", help="Only records from this source topic."),
    click.option("--key", metavar="TEXT", help="Only records with this key."),
    click.option(
        "--since",
        metavar="TIME",
        callback=parsed(_moment),
        help="Only records from this time on, such as 2026-01-31T12:00:00Z, or 2h for the last two hours.",
    ),
    click.option("--until", metavar="TIME", callback=parsed(_moment), help="Only records before this time."),
)
at_option = click.option(
    "--at",
    "place",
    metavar="PLACE",
    callback=parsed(place_of),
    help="Only the letter at this place: its PARTITION/OFFSET, or the TOPIC/PARTITION/OFFSET of its record.",
)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filters to a command, and pass them to it as `selection`."""

    @functools.wraps(command)
    def selecting(*, node: str | None, exception: str | None, topic: str | None, key: str | None, **given: Any) -> Any:
        place, since, until = given.pop("place", None), given.pop("since"), given.pop("until")
        keys = frozenset() if key is None else frozenset(_keys(key))
        return command(selection=Selection(node, exception, topic, keys, since, until, place), **given)

    for option in reversed(_OPTIONS):
        selecting = option(selecting)
    return selecting


def _keys(text: str) -> Iterator[bytes]:
    """The bytes of the text, and of the number that it may be: eight bytes that no text has."""
    yield text.encode()
    for serde in NUMBERS.values():
        try:
            yield serde.encode(float(text) if serde.name == "float" else int(text))
        except (SerdeError, ValueError, TypeError, OverflowError):
            continue
