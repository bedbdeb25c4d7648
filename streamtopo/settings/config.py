"""The options of a worker, for code, the command line, the environment and pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from streamtopo.errors import ConfigError
from streamtopo.settings.on_error import Policy
from streamtopo.settings.options import (
    answer,
    bytes_size,
    choice,
    duration,
    duration_or_none,
    flag,
    number_or_none,
    options_of,
    text,
    whole_number,
)


class Guarantee(Enum):
    """How often a record takes effect if something fails."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True)
class WorkerConfig:
    """Durations are in milliseconds, sizes in bytes. The descriptions are those of `--help`."""

    state_dir: str = text(".streamtopo/state", "Directory of the stores, with a subdirectory for each application.")
    commit_interval: int = duration(
        "100ms", "Time between commits under load. Workers that have caught up commit sooner."
    )
    commit_pause: int = duration("1ms", "Minimum pause between commits of workers that have caught up.")
    cache: int = bytes_size("10MB", "Size of the record cache of a worker. 0: send every update.")
    memory: int = bytes_size("256MB", "Memory limit for all stores of a process together.")
    """For rows in memory, RocksDB's block cache and write buffers, and compaction of the embedded log."""
    chunk: int = whole_number(10_000, "Maximum number of records that are processed together.", least=1)
    """Results do not depend on it."""
    on_error: Policy | None = answer(  # noqa: RUF009
        "What to do with a record that fails: fail (stop), skip, dead-letter, or retry:ATTEMPTS. "
        "declared: as the application declares, or fail."
    )
    """None: declared. Nodes with an answer of their own keep it."""
    dead_letter_topic: str = text(
        "dlq.APPLICATION", "Topic for dead letters; APPLICATION stands for the application id."
    )
    guarantee: Guarantee = choice(
        Guarantee.EXACTLY_ONCE,
        "Processing guarantee. at-least-once is faster on Kafka; on other logs both are the same.",
    )
    idle_advance: int = duration(
        "0ms", "Advance stream time with the wall clock after this long without records. 0: never."
    )
    max_ahead: int | None = duration_or_none(
        "1h", "Records further ahead of the wall clock than this do not advance stream time. none: all do."
    )
    origin_idle: int = duration(
        "500ms", "How long tasks after a repartition topic wait for a partition without new records."
    )
    max_task_idle: int = duration(
        "0ms", "How long a task waits for records of an empty input before it processes those of its other inputs."
    )
    create_topics: int | None = number_or_none(
        "auto",
        "Create missing topics with this number of partitions. 0: do not create them. "
        "auto: 4 on the embedded log, 0 on Kafka or with --wait-for-topics.",
    )
    no_create: bool = flag("Create no topics at all; the internal topics must exist, too.")
    """Also not the topic for the fingerprint of the topology."""
    wait_for_topics: int = duration("0ms", "How long to wait for missing topics.")
    accept_changes: bool = flag("Start even if the topology no longer fits its stored state. Delete what does not fit.")
    keep_deletions: int = duration(
        "0ms", "How long new changelogs keep deletions. 0: 10 minutes (embedded), or the Kafka cluster's setting."
    )
    close_timeout: int = duration(
        "30s", "How long the last commit may take after a signal. After that, the worker exits without it."
    )

    @property
    def row_memory(self) -> int:
        """The part of the memory for rows that are read without access to the disk: 100,000 short rows with 256 MB."""
        return self.memory // 6

    @property
    def compaction_memory(self) -> int:
        """The part of the memory for compaction of the embedded log, by one process at a time."""
        return self.memory // 8

    @property
    def exactly_once(self) -> bool:
        return self.guarantee is Guarantee.EXACTLY_ONCE


OPTIONS = options_of(WorkerConfig)
"""By the names of fields."""


def config_of(**options: Any) -> WorkerConfig:
    """Options as people write them: "100ms", "10MB", "skip".

    >>> config_of(commit_interval="1s", cache="64MB", on_error="skip").cache
    64000000
    """
    for name in options.keys() - OPTIONS:
        raise ConfigError(f'there is no option "{name}"; the options are {", ".join(sorted(OPTIONS))}')
    return WorkerConfig(**{name: OPTIONS[name].parsed(name, value) for name, value in options.items()})
