"""The options of the data source, parsed and checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamtopo.errors import ConfigError, StreamtopoError
from streamtopo.logs.embedded.arrow_log import LEAST, MOST, TimestampRange
from streamtopo.settings.sizes import size
from streamtopo.settings.times import time_of

Offsets = Mapping[int, int]
OPTIONS = {
    "path": "the directory of the embedded log",
    "topic": "the topic",
    "startingOffsets": '"earliest", or JSON such as {"0": 120}',
    "endingOffsets": '"latest", or JSON such as {"0": 240}; the end is not read',
    "partitions": 'numbers, such as "0,2"',
    "startingTimestamp": 'a time in UTC, such as "2026-11-18T09:00", or milliseconds since 1970',
    "endingTimestamp": 'a time in UTC, such as "2026-11-19", or milliseconds since 1970; the end is not read',
    "serdes": "what read_topic passes on, to decode keys and values",
    "sliceBytes": 'what one task reads, such as "16MB"',
    "commitId": "a name under which a save happens once",
    "commitNumber": "of a save under that name; it happens if none with this number, or a higher one, has",
    "checkpointLocation": "where a streaming query remembers what it wrote",
}


@dataclass(frozen=True)
class Asked:
    path: str
    topic: str
    starts: Offsets
    """The start offsets of these partitions; other partitions are read from their beginning."""
    ends: Offsets
    partitions: frozenset[int] | None
    times: TimestampRange
    serdes: str | None
    """Of keys and values that are decoded."""
    size: int
    """How many bytes one task reads."""
    commit_id: str | None
    commit_number: int
    checkpoint: str | None


def asked(options: Mapping[str, str]) -> Asked:
    """Spark passes the names of options in lower case, or as they were written."""
    known = {name.lower(): name for name in OPTIONS}
    given = {name.lower(): value for name, value in options.items()}
    for name in given.keys() - known.keys():
        listed = "; ".join(f"{option}: {what}" for option, what in OPTIONS.items())
        raise ConfigError(f'the data source "streamtopo" has no option "{name}"; it has {listed}')

    def read(name: str, parse: Callable[[str], Any], default: Any) -> Any:
        try:
            return parse(given[name.lower()]) if name.lower() in given else default
        except (ValueError, TypeError, AttributeError, StreamtopoError) as error:
            raise ConfigError(f"option {name} is {given[name.lower()]!r}; give {OPTIONS[name]}") from error

    for name in ("path", "topic"):
        if name not in given:
            raise ConfigError(f'the data source "streamtopo" needs the option "{name}": {OPTIONS[name]}')
    return Asked(
        path=str(Path(given["path"]).absolute()),
        topic=given["topic"],
        starts=read("startingOffsets", lambda text: _offsets(text, "earliest"), {}),
        ends=read("endingOffsets", lambda text: _offsets(text, "latest"), {}),
        partitions=read("partitions", lambda text: frozenset(map(int, text.split(","))), None),
        times=TimestampRange(read("startingTimestamp", time_of, LEAST), read("endingTimestamp", _before, MOST)),
        serdes=given.get("serdes"),
        size=read("sliceBytes", size, 64_000_000),
        commit_id=given.get("commitid"),
        commit_number=read("commitNumber", int, 0),
        checkpoint=given.get("checkpointlocation"),
    )


def _offsets(text: str, everything: str) -> dict[int, int]:
    if text == everything:
        return {}
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}


def _before(text: str) -> int:
    return time_of(text) - 1
