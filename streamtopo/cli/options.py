"""Settings: options that can also come from the environment or from ./pyproject.toml, alike for all commands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from streamtopo.config import Guarantee, OnError, WorkerConfig, config_of, size
from streamtopo.config import duration_or_none as milliseconds_or_none
from streamtopo.durations import milliseconds
from streamtopo.errors import ConfigError, StreamtopoError
from streamtopo.logs.opening import DEFAULT

Command = TypeVar("Command", bound=Callable[..., Any])
Parsed = TypeVar("Parsed")
PYPROJECT = "pyproject.toml"
_known = {"log", *(field.name.replace("_", "-") for field in fields(WorkerConfig))}


class Setting(click.Option):
    """From the command line, else STREAMTOPO_<NAME>, else [tool.streamtopo] in ./pyproject.toml, else its default."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        _known.add(self.key)
        self.envvar = f"STREAMTOPO_{self.key.upper().replace('-', '_')}"

    @property
    def key(self) -> str:
        """The name in pyproject.toml: the option without its dashes."""
        return max(self.opts, key=len).lstrip("-")

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        value, source = super().consume_value(ctx, opts)
        if source not in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
            configured = _configured(ctx)
            if self.key in configured:
                return configured[self.key], ParameterSource.DEFAULT_MAP
        return value, source


def _configured(context: click.Context) -> Mapping[str, Any]:
    if context.resilient_parsing:  # for completion, where an error would end up in the user's prompt
        with suppress(StreamtopoError):
            return configured()
        return {}
    return configured()


def configured(file: str = PYPROJECT) -> Mapping[str, Any]:
    """The table [tool.streamtopo], if there is one in the current folder."""
    import tomllib

    path = Path(file)
    if not path.is_file():
        return {}
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path.absolute()} cannot be read: {error}; mend it, or run from another folder") from error
    for name in ("tool", "streamtopo"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(
                f'{path.absolute()} has {type(table).__name__} "{name}" where a table [tool.streamtopo] belongs'
            )
    for name in table.keys() - _known:
        known = ", ".join(sorted(_known))
        raise ConfigError(f'[tool.streamtopo] in {path.absolute()} has "{name}"; the settings are {known}')
    for name, value in table.items():
        if "\0" in str(value):
            raise ConfigError(f'"{name}" in {path.absolute()} has a zero byte; leave it out')
    return dict(table)


# -- what many commands have

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
log_option = click.option(
    "--log",
    cls=Setting,
    metavar="URL",
    default=DEFAULT,
    show_default=True,
    show_envvar=True,
    help="Where the topics are: embedded:DIRECTORY, or kafka://HOST:PORT.",
)

# -- what a worker has


def duration(value: str | int) -> int:
    return _checked(milliseconds, value)


def duration_or_none(value: str | int) -> int | None:
    return _checked(milliseconds_or_none, value)


def bytes_size(value: str | int) -> int:
    return _checked(size, value)


def _checked(parse: Callable[[Any], Parsed], value: str | int) -> Parsed:
    try:
        return parse(value)
    except StreamtopoError as error:
        raise click.BadParameter(str(error)) from error


class Field(NamedTuple):
    """How an option of the worker is read and explained."""

    type: Any
    help: str
    default: str | None = None
    """As people write it, where that is not the number itself."""


FIELDS = {
    "state_dir": Field(str, "Where stores lie, each application in a directory of its own."),
    "commit_interval": Field(duration, "Between commits under load; one that has caught up commits sooner.", "100ms"),
    "commit_pause": Field(duration, "What caught-up commits keep between them.", "1ms"),
    "cache": Field(bytes_size, "Rows that stores keep in front of their bytes; 0 forwards every update.", "10MB"),
    "memory": Field(bytes_size, "What all stores of a process may use together.", "256MB"),
    "chunk": Field(click.IntRange(min=1), "Records in a round at most."),
    "on_error": Field(click.Choice([policy.value for policy in OnError]), "What a record that fails does."),
    "guarantee": Field(click.Choice([one.value for one in Guarantee]), "At least once is faster on Kafka only."),
    "idle_advance": Field(duration, "Without records for so long stream time follows the clock; 0: it stands.", "0ms"),
    "max_ahead": Field(
        duration_or_none, "Records further ahead of the wall clock do not move stream time; none: all do.", "1h"
    ),
    "create_topics": Field(click.IntRange(min=0), "Create a missing topic with so many partitions; 0 refuses."),
    "no_create": Field(bool, "Create no topics at all: the internal ones must be there too."),
    "wait_for_topics": Field(duration, "Wait so long for topics that are missing.", "0ms"),
    "accept_changes": Field(bool, "Start although the topology no longer fits its state; delete what does not fit."),
    "keep_deletions": Field(
        duration,
        "How long new changelogs keep deletions; 0: 10 minutes (embedded), or the setting of the Kafka cluster.",
        "0ms",
    ),
    "close_timeout": Field(duration, "After a signal, how long the last commit may take before it is given up.", "30s"),
}


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command `config`, a WorkerConfig; each of its fields is an option."""

    @functools.wraps(command)
    def configured_command(**given: Any) -> Any:
        options = {field.name: given.pop(field.name) for field in fields(WorkerConfig)}
        return command(config=config_of(**options), **given)

    for field in reversed(fields(WorkerConfig)):
        configured_command = worker_option(field.name)(configured_command)
    return configured_command


def worker_option(name: str, explained: str = "") -> Callable[[Command], Command]:
    """For commands that have one or two of them, and something else to say about it."""
    field, default = FIELDS[name], getattr(WorkerConfig, name)
    return click.option(
        f"--{name.replace('_', '-')}",
        cls=Setting,
        type=field.type,
        is_flag=isinstance(default, bool),
        default=field.default or getattr(default, "value", default),
        show_default=True,
        show_envvar=True,
        help=explained or field.help,
    )
