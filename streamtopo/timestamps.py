"""Timestamps of a source's records: from the log, a field, or a function; and what to do with invalid ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.records import check_timestamp
from streamtopo.records.type_parameters import K, V
from streamtopo.row_calls import each_row
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.windows import FOREVER


class Times(NamedTuple):
    """What a timestamp function gets as its third parameter, in milliseconds."""

    partition: int
    """The largest time of the earlier records in the partition. -1 if there are none."""
    log: int
    """The timestamp of the record in the log."""


@dataclass(frozen=True)
class Timestamp:
    """`take` is "log", the name of a field of the value, or a function of (key, value) or (key, value, times).

    A negative time is invalid. The record is skipped and counted, or fails, or gets the time of its partition.

    >>> Timestamp("at", invalid="partition_time").column([None] * 3, [{"at": 5}, {"at": -1}, {"at": 3}], [0] * 3, 0)
    [5, 5, 3]
    """

    take: str | Callable[..., int] = "log"
    invalid: Literal["skip", "fail", "partition_time"] = "skip"

    def __post_init__(self) -> None:
        if self.invalid not in ("skip", "fail", "partition_time"):
            raise TopologyError(
                f'invalid={self.invalid!r} of a timestamp is not known; give "skip", "fail" or "partition_time"'
            )
        if not isinstance(self.take, str) and not callable(self.take):
            raise TopologyError(f'{self.take!r:.80} gives no timestamps; give "log", a field\'s name or a function')

    def column(
        self, keys: list[Any], values: list[Any], log: list[int], partition: int, bound: int = FOREVER
    ) -> list[int]:
        """The times of consecutive records of a partition, whose time was `partition_time` before.

        Times after the bound do not move the time of the partition.
        """
        times = self._taken(keys, values, log, partition, bound)
        source = f'the field "{self.take}" has' if isinstance(self.take, str) else _RETURNED
        for time in times:
            check_timestamp(time, source)
        if self.invalid == "skip" or min(times, default=0) >= 0:
            return times
        return list(self._valid(times, partition, bound))

    def call_again(self, keys: list[Any], values: list[Any], known: list[int]) -> None:
        """Call a function only because it may change the values. Its results are known, and are valid."""
        if callable(self.take):
            self._taken(keys, values, known, -1, FOREVER)

    def _taken(self, keys: list[Any], values: list[Any], log: list[int], partition: int, bound: int) -> list[int]:
        if self.take == "log":
            return log
        if isinstance(self.take, str):
            return each_row(functools.partial(_field, self.take), values)
        if not _asks_for_times(self.take):
            return each_row(self.take, keys, values)
        return list(_one_by_one(self.take, keys, values, log, partition, bound))

    def _valid(self, times: Iterable[int], partition: int, bound: int) -> Iterator[int]:
        for time in times:
            if time < 0 and self.invalid == "fail":
                raise StreamtopoError(f'the timestamp {time} is negative; give invalid="skip" to skip such records')
            if time < 0 and partition < 0:
                raise StreamtopoError(f"the timestamp {time} is negative, and no earlier record has a time")
            if partition < time <= bound:
                partition = time
            yield partition if time < 0 else time


TimestampLike: TypeAlias = str | Callable[[K, V], int] | Callable[[K, V, Times], int] | Timestamp


@dataclass(frozen=True)
class MaxAhead:
    """How far the time of a record may be ahead of the wall clock. `then` is what to do with a record further ahead.

    "keep": process it, but do not move stream time. "skip": skip and count it. "fail": it is an error.
    """

    limit: Duration = "1h"
    then: Literal["keep", "skip", "fail"] = "keep"

    def __post_init__(self) -> None:
        if self.then not in ("keep", "skip", "fail"):
            raise TopologyError(f'then={self.then!r} of MaxAhead is not known; give "keep", "skip" or "fail"')
        if self.milliseconds < 0:
            raise TopologyError(f"MaxAhead({self.limit!r}) is less than 0; give 0 or more, or max_ahead=None")

    @property
    def milliseconds(self) -> int:
        """The limit in milliseconds; None: there is none."""
        return milliseconds(self.limit)


MaxAheadLike = Duration | MaxAhead | None
"""None: no limit. "default": the limit of the worker."""


def max_ahead_of(given: MaxAheadLike) -> MaxAhead | Literal["default"] | None:
    if given is None or given == "default" or isinstance(given, MaxAhead):
        return given  # type: ignore[return-value]
    return MaxAhead(given)


def timestamp_of(given: TimestampLike | None) -> Timestamp | None:
    """None means the timestamps of the log."""
    return given if given is None or isinstance(given, Timestamp) else Timestamp(given)


_RETURNED = "the timestamp function returned"


def _field(name: str, value: Any) -> Any:
    try:
        return value[name] if isinstance(value, dict) else getattr(value, name)
    except (KeyError, AttributeError) as error:
        raise StreamtopoError(f'the timestamp is in field "{name}", which {value!r:.80} does not have') from error


@functools.lru_cache(maxsize=100)
def _asks_for_times(function: Callable[..., int]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C
        return False
    positional = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return len([one for one in parameters if one.kind in positional and one.default is one.empty]) > 2


def _one_by_one(
    function: Callable[..., int], keys: list[Any], values: list[Any], log: list[int], partition: int, bound: int
) -> Iterator[int]:
    for key, value, logged in zip(keys, values, log, strict=True):
        time = function(key, value, Times(partition, logged))
        check_timestamp(time, _RETURNED)
        if partition < time <= bound:
            partition = time
        yield time
