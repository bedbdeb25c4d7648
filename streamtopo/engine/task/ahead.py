"""Records whose time is far ahead of the wall clock: clocks do not follow them, and a warning names them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal, NamedTuple

from streamtopo.errors import StreamtopoError
from streamtopo.records import TopicPartition
from streamtopo.settings.times import time_text
from streamtopo.topology import Topology
from streamtopo.topology.nodes import SourceNode
from streamtopo.windows import FOREVER

logger = logging.getLogger("streamtopo")

_MINUTE = 60_000
_HOUR = 3_600_000

CLOCK_SET = 1_577_836_800_000
"""The year 2020. A wall clock that shows an earlier time was never set: some devices start in 1970."""


class Ahead(NamedTuple):
    """The limit of one source, and what to do with records beyond it."""

    limit: int = FOREVER
    """How many milliseconds the times of records may be ahead of the wall clock."""
    then: Literal["keep", "skip", "fail"] = "keep"

    def latest(self, now: int) -> int:
        return min(now + self.limit, FOREVER)

    def check(self, times: list[int], latest: int) -> None:
        if (time := max(times, default=-1)) > latest:
            raise StreamtopoError(
                f"its {in_words(time, latest - self.limit)}, which is more than max_ahead of its source allows; "
                'give then="keep" or then="skip" to keep or skip such records'
            )


ANY = Ahead()


def by_source(topology: Topology, default: int | None) -> dict[str, Ahead]:
    """The limit of each source, by its name; `default` is the worker's limit, or None for no limit.

    Records keep their times in internal topics. So the source of an internal topic has the largest limit of the
    sources that feed it.
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
    """The limit of a task that reads these sources. It has one stream time, so the largest limit counts."""
    return max(known.get(source.name, ANY).limit for source in sources)


def _given(source: SourceNode, default: int | None) -> Ahead:
    match source.max_ahead:
        case "default":
            return ANY if default is None else Ahead(default)
        case None:
            return ANY
        case given:
            return Ahead(given.milliseconds, given.then)


class ClockLimit:
    """How far the clocks of one task follow its records. Counts the records beyond that, and warns about them."""

    def __init__(self, limit: int, clock_set: int) -> None:
        self.beyond = 0
        """The number of records that no clock has followed."""
        self._limit = Ahead(limit)
        self._clock_set = clock_set
        self._warned_at: dict[TopicPartition, int] = {}

    def judged(self, now: int) -> int:
        """The wall clock to compare records with: none is too far ahead of a clock that was never set."""
        return now if now >= self._clock_set else FOREVER

    def latest(self, now: int) -> int:
        return self._limit.latest(self.judged(now))

    def passed(self, rows: int, partition: TopicPartition, offset: int, time: int, now: int) -> None:
        """These rows were beyond the limit, the first one at this offset. Warns once a minute for each partition."""
        self.beyond += rows
        if now - self._warned_at.get(partition, now - _MINUTE) < _MINUTE:
            return
        self._warned_at[partition] = now
        logger.warning(
            "%s offset %d: its %s. The record is processed, but does not move stream time: its windows close when "
            "other records reach that time. If the wall clock is wrong, set the clock of this machine. If your data is "
            "in the future on purpose, give its source max_ahead=None, or start with --max-ahead none. To leave such "
            'records out, give the source max_ahead=MaxAhead(then="skip")',
            partition,
            offset,
            in_words(time, now),
        )


def warn_of_clock(task: str, time: int, now: int) -> None:
    """The task was last run by an older version, or by a worker with another limit."""
    logger.warning(
        "task %s starts with a stream time that a record from the future left behind: its stream %s. Until then, "
        "windows and joins treat all records as late. If the wall clock is wrong, set the clock of this machine. If "
        "that record was a mistake, stop the application and process its input again: streamtopo reset. If your data "
        "is in the future on purpose, start with --max-ahead none",
        task,
        in_words(time, now),
    )


def warn_of_unset_clock(now: int) -> None:
    logger.warning(
        "the wall clock of this machine was never set: it shows %s. Until it is set, max_ahead has no effect: "
        "all records move stream time, also those with a time far in the future. Set the clock, for example with NTP",
        readable(now),
    )


def in_words(time: int, now: int) -> str:
    hours = (time - now) / _HOUR
    distance = f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:,.0f} days"
    return f"time {time} ({readable(time)}) is {distance} ahead of the wall clock, {readable(now)}"


def readable(time: int) -> str:
    text = time_text(time)
    return "after the year 9999" if text == str(time) else text
