"""Records whose time is far ahead of the wall clock: they do not move clocks, and a warning names them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from streamtopo.errors import StreamtopoError
from streamtopo.records import TopicPartition
from streamtopo.topology import SourceNode, Topology
from streamtopo.windows import FOREVER

logger = logging.getLogger("streamtopo")

_MINUTE = 60_000
_HOUR = 3_600_000

CLOCK_SET = 1_577_836_800_000
"""The year 2020: a wall clock before it was never set, as on a device that starts in 1970 until it has a network."""


class Ahead(NamedTuple):
    """What holds for the records of one source."""

    limit: int = FOREVER
    """Milliseconds that their times may be ahead of the wall clock."""
    then: Literal["keep", "skip", "fail"] = "keep"

    def latest(self, now: int) -> int:
        return min(now + self.limit, FOREVER)

    def check(self, times: list[int], latest: int) -> None:
        if (time := max(times, default=-1)) > latest:
            raise StreamtopoError(
                f"its {in_words(time, latest - self.limit)}, which is more than max_ahead of its source allows; "
                'give then="keep" or then="skip" to go on with such records or without them'
            )


ANY = Ahead()


def by_source(topology: Topology, default: int | None) -> dict[str, Ahead]:
    """For each source by its name; `default` is the worker's limit, None: there is none.

    Records keep their times in internal topics, so the source of one has the largest limit of those that feed it.
    """
    known = {source.name: _given(source, default) for source in topology.sources}
    read = [(topic, source.name) for source in topology.sources for topic in source.topics]
    internal = {topic: name for topic, name in read if topic in topology.repartitions}
    known.update((name, Ahead(-1)) for name in internal.values())
    parts = topology.subtopologies()
    limits: dict[int, int] = {}
    while limits != (now := {part.number: limit_of(part.sources, known) for part in parts}):
        limits = now
        for part in parts:
            for topic in {sink.topic for sink in part.sinks if isinstance(sink.topic, str)} & internal.keys():
                name = internal[topic]
                known[name] = Ahead(max(known[name].limit, limits[part.number]))
    return {name: ahead if ahead.limit >= 0 else ANY for name, ahead in known.items()}


def limit_of(sources: tuple[SourceNode, ...], known: Mapping[str, Ahead]) -> int:
    """The limit for a task that reads these: it has one clock, so the largest holds."""
    return max(known.get(source.name, ANY).limit for source in sources)


def _given(source: SourceNode, default: int | None) -> Ahead:
    match source.max_ahead:
        case "default":
            return ANY if default is None else Ahead(default)
        case None:
            return ANY
        case given:
            return Ahead(given.milliseconds, given.then)


class Warnings:
    """About records that no clock followed: for each partition one at most in a minute."""

    def __init__(self) -> None:
        self._warned_at: dict[TopicPartition, int] = {}

    def warn(self, partition: TopicPartition, offset: int, time: int, now: int) -> None:
        if now - self._warned_at.get(partition, now - _MINUTE) < _MINUTE:
            return
        self._warned_at[partition] = now
        logger.warning(
            "%s offset %d: its %s. The record is processed, but does not move stream time: its windows close when "
            "other records get there. If the wall clock is wrong, set the clock of this machine. If your data is in "
            "the future on purpose, give its source max_ahead=None, or start with --max-ahead none. To leave such "
            'records out, give the source max_ahead=MaxAhead(then="skip")',
            partition,
            offset,
            in_words(time, now),
        )

    def warn_of_clock(self, task: str, time: int, now: int) -> None:
        """An older version left it so, or a worker with another limit."""
        logger.warning(
            "task %s begins where a record from the future left it: its stream %s. Until then windows and joins "
            "take all records for late. If the wall clock is wrong, set the clock of this machine. If that record was "
            "a mistake, stop the application and process its input again: streamtopo reset. If your data is in the "
            "future on purpose, start with --max-ahead none",
            task,
            in_words(time, now),
        )


def warn_of_unset_clock(now: int) -> None:
    logger.warning(
        "the wall clock of this machine was never set: it says %s. Until it is set, max_ahead does not hold: all "
        "clocks follow all records, also those with a time far in the future. Set the clock, for example by NTP",
        readable(now),
    )


def in_words(time: int, now: int) -> str:
    hours = (time - now) / _HOUR
    distance = f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:,.0f} days"
    return f"time {time} ({readable(time)}) is {distance} ahead of the wall clock, {readable(now)}"


def readable(time: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return "after the year 9999"
