"""Fields of a dataclass that are options: the default, the help, and how values are written and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from streamtopo.errors import ConfigError
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.settings.on_error import Policy, policy_of
from streamtopo.settings.sizes import size

DECLARED = "declared"


@dataclass(frozen=True)
class Option:
    """An option. The default of its field is what `read` returns for `default`."""

    default: Any
    """As people write it, such as "100ms"."""
    help: str
    read: Callable[[Any], Any] | None = None
    """Converts what people write to a number, or raises ConfigError."""
    metavar: str = ""
    """The name of such a value in help."""
    unit: str = ""
    """The unit of a number."""
    choices: type[Enum] | None = None
    least: int | None = None
    none: str = "none"
    """How None is written."""

    def parsed(self, name: str, value: Any) -> Any:
        """The value of the field for a value from code, the command line, the environment or a file."""
        if self.choices is not None:
            try:
                return self.choices(value)
            except ValueError:
                names = " or ".join(choice.value for choice in self.choices)
                raise ConfigError(f"{name} is {value!r}; give {names}") from None
        return value if self.read is None else self.read(value)

    def written(self, value: Any) -> str:
        """The value of a field as text, from which it can be parsed again."""
        if value is None:
            return self.none
        if callable(value):
            raise ConfigError(
                f"{value!r:.80} is a function, which cannot be sent to other processes; declare it in the app"
            )
        return value.value if isinstance(value, Enum) else f"{value}{self.unit}"


def options_of(config: Any) -> dict[str, Option]:
    """The options of a dataclass, by the names of its fields."""
    return {field.name: field.metadata["option"] for field in fields(config)}


def _field(value: Any, option: Option) -> Any:
    return field(default=value, metadata={"option": option})


def text(default: str, help: str) -> Any:
    return _field(default, Option(default, help))


def flag(help: str) -> Any:
    return _field(False, Option(False, help))


def whole_number(default: int, help: str, *, least: int) -> Any:
    return _field(default, Option(default, help, least=least))


def number_or_none(none: str, help: str) -> Any:
    """A whole number, or None, written as `none`."""

    def read(value: Any) -> int | None:
        if value in (None, none):
            return None
        if not str(value).isdecimal():
            raise ConfigError(f"{value!r} is not a number of at least 0; give one such as 4, or {none}")
        return int(value)

    return _field(None, Option(none, help, read, "number", none=none))


def choice(default: Enum, help: str) -> Any:
    return _field(default, Option(default.value, help, choices=type(default)))


def answer(help: str) -> Any:
    """What to do with a record that fails; None if only the application declares that."""
    return _field(None, Option(DECLARED, help, _answer, "answer", none=DECLARED))


def _answer(value: Any) -> Policy | None:
    return None if value in (None, DECLARED) else policy_of(value)


def duration(default: str, help: str) -> Any:
    """Milliseconds."""
    return _field(milliseconds(default), Option(default, help, milliseconds, "duration", "ms"))


def duration_or_none(default: str, help: str) -> Any:
    """Milliseconds, or None for no limit."""
    return _field(milliseconds(default), Option(default, help, milliseconds_or_none, "duration", "ms"))


def bytes_size(default: str, help: str) -> Any:
    """Bytes."""
    return _field(size(default), Option(default, help, size, "size"))


def milliseconds_or_none(value: Duration | None) -> int | None:
    """Milliseconds; None, or "none", is no limit."""
    if value in (None, "none"):
        return None
    try:
        return milliseconds(value)
    except ConfigError as error:
        raise ConfigError(f"{error}, or none for no limit") from None
