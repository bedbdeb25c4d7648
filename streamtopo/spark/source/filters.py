"""Filters that Spark hands to the source, since 4.1: those on partition, offset and timestamp narrow what is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from streamtopo.logs.embedded.arrow_log import LEAST, MOST, TimestampRange

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Bounds:
    """The least and the largest value, both included, for each column; Spark applies the filters again."""

    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)

    def narrowed(self, filters: Iterable[Any]) -> Bounds:
        found = self
        for one in filters:
            found = found._with(one)
        return found

    def between(self, name: str, least: int, most: int) -> tuple[int, int]:
        """The range, as far as it is within the bounds of this column."""
        return max(least, self.least.get(name, least)), min(most, self.most.get(name, most))

    def has(self, name: str, value: int) -> bool:
        return self.between(name, value, value) == (value, value)

    def times(self, times: TimestampRange) -> TimestampRange:
        """The same for timestamps, in milliseconds; the bounds are microseconds."""
        least, most = self.between("timestamp", LEAST * 1000, MOST * 1000)
        return TimestampRange(max(times.first, -(-least // 1000)), min(times.last, most // 1000))

    def _with(self, one: Any) -> Bounds:
        """Filters are known by their names, because PySpark 4.0 does not have the classes."""
        kind, path, value = type(one).__name__, list(getattr(one, "attribute", ())), getattr(one, "value", None)
        values = [_number(each) for each in (value if isinstance(value, list | tuple) else [value])]
        numbers = [each for each in values if each is not None]
        if len(path) != 1 or not numbers or len(numbers) < len(values):
            return self
        least, most = self.between(path[0], -(1 << 80), 1 << 80)
        if kind in ("EqualTo", "EqualNullSafe", "In", "GreaterThan", "GreaterThanOrEqual"):
            least = max(least, min(numbers) + (kind == "GreaterThan"))
        if kind in ("EqualTo", "EqualNullSafe", "In", "LessThan", "LessThanOrEqual"):
            most = min(most, max(numbers) - (kind == "LessThan"))
        return replace(self, least=self.least | {path[0]: least}, most=self.most | {path[0]: most})


EVERYTHING = Bounds()


def _number(value: Any) -> int | None:
    """Whole numbers as they are, times in microseconds; None for other values."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _START) // _MICROSECOND
    return value if type(value) is int else None
