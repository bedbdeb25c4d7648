"""Options that can also be set in the environment or in ./pyproject.toml, in the same way for all commands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from streamtopo.cli.shared.failures import remember_log
from streamtopo.errors import ConfigError, StreamtopoError
from streamtopo.logs.opening import DEFAULT
from streamtopo.settings.config import OPTIONS, config_of
from streamtopo.settings.options import Option

Command = TypeVar("Command", bound=Callable[..., Any])
PYPROJECT = "pyproject.toml"
_known = {"log", *(name.replace("_", "-") for name in OPTIONS)}


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
    if context.resilient_parsing:  # during completion an error would appear in the user's prompt
        with suppress(StreamtopoError):
            return configured()
        return {}
    return configured()


def configured(file: str = PYPROJECT) -> Mapping[str, Any]:
    """Return the table [tool.streamtopo] of the current directory; empty if there is none."""
    import tomllib

    path = Path(file)
    if not path.is_file():
        return {}
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path.absolute()} cannot be read: {error}; fix it, or run from another directory"
        ) from error
    for name in ("tool", "streamtopo"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(
                f'{path.absolute()} has "{name}" of type {type(table).__name__}; it must be a table [tool.streamtopo]'
            )
    for name in table.keys() - _known:
        known = ", ".join(sorted(_known))
        raise ConfigError(f'[tool.streamtopo] in {path.absolute()} has "{name}"; the settings are {known}')
    for name, value in table.items():
        if "\0" in str(value):
            raise ConfigError(f'"{name}" in {path.absolute()} has a zero byte; remove it')
    return dict(table)


# -- options of many commands

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
log_option = click.option(
    "--log",
    cls=Setting,
    metavar="URL",
    default=DEFAULT,
    show_default=True,
    show_envvar=True,
    callback=remember_log,
    help="The log with the topics: embedded:DIRECTORY or kafka://HOST:PORT.",
)

# -- options of a worker


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the worker's options to a command, and pass them to it as `config`, a WorkerConfig."""

    @functools.wraps(command)
    def configured_command(**given: Any) -> Any:
        options = {name: given.pop(name) for name in OPTIONS}
        return command(config=config_of(**options), **given)

    for name in reversed(OPTIONS):
        configured_command = worker_option(name)(configured_command)
    return configured_command


def worker_option(name: str, explained: str = "") -> Callable[[Command], Command]:
    """Return one of the worker's options, for commands that have only a few, with a help text of their own."""
    option = OPTIONS[name]
    return click.option(
        f"--{name.replace('_', '-')}",
        cls=Setting,
        type=_type_of(option),
        is_flag=isinstance(option.default, bool),
        default=option.default,
        show_default=True,
        show_envvar=True,
        metavar="N" if option.least is not None else None,
        help=explained or option.help,
    )


def _type_of(option: Option) -> Any:
    if option.choices is not None:
        return click.Choice([choice.value for choice in option.choices])
    if option.least is not None:
        return click.IntRange(min=option.least)
    return type(option.default) if option.read is None else ReadBy(option)


class ReadBy(click.ParamType):
    """Values that the option itself parses."""

    def __init__(self, option: Option) -> None:
        self._option = option
        self.name = option.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._option.read(value) if self._option.read else value
        except ConfigError as error:
            self.fail(str(error), param, ctx)


# -- options of commands that run on Spark


class SparkOptions(NamedTuple):
    master: str | None
    settings: Mapping[str, str]


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a session to a command, and pass them to it as `session`."""

    @click.option(
        "--master", metavar="URL", help="Spark master to run on; by default that of spark-submit, or else local[*]."
    )
    @click.option(
        "--conf",
        "settings",
        multiple=True,
        callback=_settings,
        metavar="NAME=VALUE",
        help="A setting of Spark, such as spark.driver.memory=4g; can be repeated.",
    )
    @functools.wraps(command)
    def with_session(master: str | None, settings: Mapping[str, str], **given: Any) -> Any:
        return command(session=SparkOptions(master, settings), **given)

    return with_session


def _settings(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name.startswith("spark.") and equals):
            raise click.BadParameter(f"{text!r} is not a setting of Spark; give one such as spark.driver.memory=4g")
        found[name] = value
    return found
