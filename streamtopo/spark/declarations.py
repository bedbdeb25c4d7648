"""The declarations of an application for Spark, in plain Python: importing them does not need Spark."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from types import ModuleType
from typing import Any, TypeVar

from streamtopo.errors import TopologyError
from streamtopo.serdes import BYTES, Serde, SerdeLike, serde_of
from streamtopo.topology import Topology
from streamtopo.topology.names import valid_name
from streamtopo.topology.topic_serdes import declared_serdes

MERGES = ("sum", "min", "max")
_EVERY = re.compile(r"(\d+) (minute|hour|day|week)s?")
_MS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
_MONDAY = 4 * 86_400_000
"""The first Monday of 1970, in milliseconds."""


@dataclass(frozen=True)
class Every:
    """How time is cut into buckets: in UTC; weeks start on Monday."""

    unit: str
    count: int

    @property
    def ms(self) -> int:
        return self.count * _MS[self.unit]

    @property
    def origin(self) -> int:
        return _MONDAY if self.unit == "week" else 0

    @property
    def whole_days(self) -> bool:
        return self.unit in ("day", "week")

    def start(self, bucket: int) -> int:
        """In milliseconds."""
        return bucket * self.ms + self.origin

    def bucket(self, timestamp: int) -> int:
        return (timestamp - self.origin) // self.ms

    def moment(self, bucket: int) -> date:
        """The start: a date, or a time with its zone."""
        start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.start(bucket))
        return start.date() if self.whole_days else start

    def shown(self, bucket: int) -> str:
        return self.moment(bucket).strftime("%Y-%m-%d" if self.whole_days else "%Y-%m-%d %H:%M:%S")

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"


def every_of(text: str) -> Every:
    """Parse the text of a span of time.

    >>> every_of("6 hours").ms, every_of("1 day").shown(1)
    (21600000, '1970-01-02')
    """
    match = _EVERY.fullmatch(text)
    if match is None or not int(match[1]):
        raise TopologyError(f"{text!r} is not a time span for a rollup; give '15 minutes', '1 hour' or '1 day'")
    return Every(match[2], int(match[1]))


@dataclass(frozen=True)
class Input:
    """A topic. If a type is None, the topology's type is used; the topology also names the field with the time."""

    topic: str
    key: Serde | None = None
    value: Serde | None = None
    timestamp: str | None = None

    @property
    def types(self) -> tuple[Serde, Serde]:
        return self.key or BYTES, self.value or BYTES


@dataclass(frozen=True)
class Rollup:
    name: str
    inputs: tuple[Input, ...]
    tables: tuple[Input, ...]
    """Topics whose last value of each key is looked up during a computation."""
    every: Every
    keys: tuple[str, ...]
    merge: Mapping[str, str]
    """How to merge each column of old and new records; if it is empty, changed spans are computed again."""
    function: Callable[..., Any]
    grace: int = 0
    """How long the application's windows wait for late records, in milliseconds."""

    @property
    def bucket(self) -> str:
        """The column with the span of time of a row."""
        return self.every.unit

    def definition(self) -> dict[str, Any]:
        """The properties that must not change, because old and new results would not fit together."""
        return {
            "topics": [one.topic for one in self.inputs],
            "tables": [one.topic for one in self.tables],
            "every": str(self.every),
            "keys": list(self.keys),
            "merge": dict(self.merge),
            "mode": None,
        }


def rollup(
    name: str,
    *,
    every: str,
    keys: Iterable[str] = (),
    topic: str | None = None,
    beside: Iterable[str] = (),
    tables: Iterable[str] = (),
    key: SerdeLike | None = None,
    value: SerdeLike | None = None,
    merge: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Rollup]:
    """An aggregation of a topic, by time spans. The function gets a DataFrame and returns one.

    The topic is the function's first parameter unless it is named; types and times are those of the application's
    topology. The frame has the columns of `read_topic`, and the start of each record's span in a column called `day`
    for "1 day". The result must have that column, the keys and the computed values. `merge={"total": "sum"}` means that
    results of old and of new records can be merged, column by column, by sum, min or max.

    More parameters are frames, in this order: of the topics in `beside`, with the records of the same time spans, and
    of the topics in `tables`, with the current last value of each key.
    """

    def declared(function: Callable[..., Any]) -> Rollup:
        for column, how in (merge or {}).items():
            if how not in MERGES:
                raise TopologyError(f'rollup "{name}" merges "{column}" by {how!r}; there are {", ".join(MERGES)}')
        others = tuple(map(Input, _listed("beside", beside)))
        if merge and others:
            raise TopologyError(f'rollup "{name}" reads {others[0].topic} besides its topic; leave out merge=')
        first = Input(
            topic or next(iter(inspect.signature(function).parameters)),
            None if key is None else serde_of(key, key=True),
            None if value is None else serde_of(value),
        )
        return Rollup(
            valid_name(name, "rollup"),
            (first, *others),
            tuple(map(Input, _listed("tables", tables))),
            every_of(every),
            _listed("keys", keys),
            dict(merge or {}),
            function,
        )

    return declared


@dataclass(frozen=True)
class Expected:
    """The final content that a topic or store should have, computed in batch from its inputs."""

    name: str
    inputs: tuple[str, ...]
    function: Callable[..., Any]


def expected(name: str, *, inputs: Iterable[str] | None = None) -> Callable[[Callable[..., Any]], Expected]:
    """The last value of each key in a topic or store, computed by a batch, for `streamtopo reconcile`.

    The function gets a DataFrame for each input topic, as `read_topic` gives it, and returns key and value.
    """

    def declared(function: Callable[..., Any]) -> Expected:
        return Expected(name, _listed("inputs", inputs or inspect.signature(function).parameters), function)

    return declared


@dataclass(frozen=True)
class View:
    """A table that is computed from whole tables of rollups."""

    name: str
    of: tuple[str, ...]
    function: Callable[..., Any]


def view(name: str, *, of: Iterable[str]) -> Callable[[Callable[..., Any]], View]:
    """A table over all time spans, computed again from these rollups when one of them has changed."""

    def declared(function: Callable[..., Any]) -> View:
        return View(valid_name(name, "view"), _listed("of", of), function)

    return declared


def _listed(what: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TopologyError(f'{what}="{names}" is a string; give a list of names, {what}=["{names}"]')
    return tuple(names)


Declared = TypeVar("Declared", Rollup, Expected, View)


def declared_in(modules: Iterable[ModuleType], kind: type[Declared]) -> dict[str, Declared]:
    """The declarations by name, in the order of the modules' text."""
    found: dict[str, Declared] = {}
    for module in modules:
        for one in vars(module).values():
            if isinstance(one, kind) and found.setdefault(one.name, one) is not one:
                raise TopologyError(f'"{one.name}" is declared twice as @{kind.__name__.lower()}; rename one of them')
    return found


def resolved(rollup: Rollup, topology: Topology) -> Rollup:
    """The rollup with the times of the topology, and with its types if the rollup names none."""

    def known(one: Input) -> Input:
        key, value = serdes_of(topology, one.topic)
        return replace(one, key=one.key or key, value=one.value or value, timestamp=_time_of(topology, one.topic))

    grace = max((store.grace for store in topology.stores.values()), default=0)
    inputs, tables = tuple(map(known, rollup.inputs)), tuple(map(known, rollup.tables))
    return replace(rollup, inputs=inputs, tables=tables, grace=grace)


def _time_of(topology: Topology, topic: str) -> str | None:
    """The field with the time of the records, if the topology names one."""
    for source in topology.sources:
        if topic in map(topology.topic_of, source.topics) and source.timestamp is not None:
            if not isinstance(source.timestamp.take, str):
                raise TopologyError(
                    f'the timestamps of "{topic}" come from a function, which Spark cannot call; name a field'
                )
            if source.timestamp.invalid == "partition_time":
                raise TopologyError(
                    f'negative times of "{topic}" are those of the record before, which Spark does not see; leave out '
                    'invalid="partition_time"'
                )
            return None if source.timestamp.take == "log" else source.timestamp.take
    return None


def serdes_of(topology: Topology, topic: str) -> tuple[Serde, Serde]:
    """The types of keys and values with which the topology reads, writes or logs the topic; otherwise bytes."""
    return next(declared_serdes(topology, topic), (BYTES, BYTES))
