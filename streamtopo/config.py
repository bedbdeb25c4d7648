"""The options of a worker: one name each, in code, on the command line and in the environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from streamtopo.durations import Duration, milliseconds
from streamtopo.errors import ConfigError

DURATIONS = (
    "commit_interval",
    "commit_pause",
    "idle_advance",
    "max_ahead",
    "wait_for_topics",
    "close_timeout",
    "keep_deletions",
)
"""Fields of the config that are milliseconds."""


class OnError(Enum):
    """What happens to a record that a step, or a serde, cannot take."""

    FAIL = "fail"
    SKIP = "skip"


class Guarantee(Enum):
    """How often the effects of a record are there after a failure."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True)
class WorkerConfig:
    state_dir: str = ".streamtopo/state"
    """Where stores lie; a directory of its own for each application in it."""
    commit_interval: int = 100
    """Milliseconds between commits under load; a worker that has caught up commits sooner."""
    commit_pause: int = 1
    """Milliseconds that caught-up commits keep between them."""
    cache: int = 10_000_000
    """Bytes of rows that stores keep in front of their bytes; 0 forwards and logs every update."""
    memory: int = 256_000_000
    """Bytes that all stores of a process may use: rows in memory, blocks, rows not flushed yet, cleaning the log."""
    chunk: int = 10_000
    """Records in a round at most. Results do not depend on it."""
    on_error: OnError = OnError.FAIL
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    """At least once is faster on Kafka; on other logs it is exactly once as well."""
    idle_advance: int = 0
    """Milliseconds without a record after which stream time goes on with the wall clock; 0: it stands still."""
    max_ahead: int | None = 3_600_000
    """Milliseconds that a record may be ahead of the wall clock for clocks to follow it; None: any number."""
    create_topics: int = 0
    """Create a topic that is read or written and does not exist, with so many partitions; 0 refuses."""
    no_create: bool = False
    """Create no topic, not even an internal one, nor what the log would keep the topology's fingerprint in."""
    wait_for_topics: int = 0
    """Milliseconds to wait for topics that are missing, before the worker refuses to start."""
    accept_changes: bool = False
    """Start although the topology no longer fits the state it left behind; what does not fit is deleted."""
    keep_deletions: int = 0
    """Milliseconds for which new changelogs keep deletions; 0: ten minutes (embedded log), or as the cluster does."""
    close_timeout: int = 30_000
    """Milliseconds that the last commit may take after a signal; then the process ends without it."""

    @property
    def at_hand(self) -> int:
        """The part of the memory for rows to be read without asking the disk: of 256 MB, 100,000 short ones."""
        return self.memory // 6

    @property
    def cleaning(self) -> int:
        """The part of the memory for cleaning the embedded log, which one process does at a time."""
        return self.memory // 8

    @property
    def exactly_once(self) -> bool:
        return self.guarantee is Guarantee.EXACTLY_ONCE


def config_of(**options: Any) -> WorkerConfig:
    """Options as people write them: "100ms", "10MB", "skip".

    >>> config_of(commit_interval="1s", cache="64MB", on_error="skip").cache
    64000000
    """
    known = {field.name for field in fields(WorkerConfig)}
    for name in options.keys() - known:
        raise ConfigError(f'there is no option "{name}"; the options are {", ".join(sorted(known))}')
    parse = {**dict.fromkeys(DURATIONS, milliseconds), "cache": size, "memory": size, "max_ahead": duration_or_none}
    return WorkerConfig(**{name: _parsed(name, value, parse.get(name)) for name, value in options.items()})


_CHOICES: dict[str, type[Enum]] = {"on_error": OnError, "guarantee": Guarantee}


def _parsed(name: str, value: Any, parse: Any) -> Any:
    if (choices := _CHOICES.get(name)) is not None:
        try:
            return choices(value)
        except ValueError:
            names = " or ".join(choice.value for choice in choices)
            raise ConfigError(f"{name} is {value!r}; give {names}") from None
    return value if parse is None else parse(value)


def duration_or_none(text: Duration | None) -> int | None:
    """Milliseconds; None, or "none", is no limit."""
    if text in (None, "none"):
        return None
    try:
        return milliseconds(text)
    except ConfigError as error:
        raise ConfigError(f"{error}, or none for no limit") from None


_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(kB|KB|MB|GB|B)?")
_BYTES = {None: 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 1_000_000, "GB": 1_000_000_000}


def size(text: str | int) -> int:
    """A number of bytes: "10MB", or an int."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(f"{text!r} is not a size; give bytes as an int, or a string like '64kB', '10MB' or '1GB'")
    return round(float(match[1]) * _BYTES[match[2]])
