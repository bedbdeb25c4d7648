"""Ready aggregators for `aggregate`: sums, extremes, averages, the first, the last, the top, everything.

>>> from streamtopo import StreamsBuilder
>>> from streamtopo.aggregators import mean
>>> builder = StreamsBuilder("climate")
>>> readings = builder.stream("readings", key=str, value=dict)
>>> readings.group_by_key().aggregate(mean(lambda reading: reading["celsius"])).to_stream().to("averages")
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamtopo.errors import TopologyError
from streamtopo.serdes import SerdeLike

Of = Callable[[Any], Any]
"""What counts of a value."""


@dataclass(frozen=True)
class Aggregator:
    """Rows begin as `init()`, take each value by `add`, and two sessions' rows become one by `merge`."""

    init: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    """(row, value) -> the new row; it may change the row and return it."""
    merge: Callable[[Any, Any], Any]
    """(row, a later row) -> the row of both."""
    value: SerdeLike
    """The type of the rows."""
    finish: Callable[[Any], Any] | None = None
    """What is made of a row for those who read the table; None if the row is what they want."""
    finished: SerdeLike | None = None
    """The type of that."""

    def adder(self, key: Any, value: Any, row: Any) -> Any:
        """Without a value there is nothing to add; windows, unlike plain groups, get such records too."""
        return row if value is None else self.add(row, value)

    def merger(self, key: Any, one: Any, other: Any) -> Any:
        return self.merge(one, other)


def _itself(value: Any) -> Any:
    return value


def sum(of: Of = _itself, *, value: SerdeLike = float) -> Aggregator:
    """Give `value=int` for whole numbers."""
    zero = 0 if value is int else 0.0
    return Aggregator(lambda: zero, lambda row, new: row + of(new), lambda one, other: one + other, value)


def min(of: Of = _itself, *, value: SerdeLike = float) -> Aggregator:
    return _best(of, lambda new, old: new < old, value)


def max(of: Of = _itself, *, value: SerdeLike = float) -> Aggregator:
    return _best(of, lambda new, old: new > old, value)


def _best(of: Of, better: Callable[[Any, Any], bool], value: SerdeLike) -> Aggregator:
    def pick(row: Any, new: Any) -> Any:
        return new if row is None or (new is not None and better(new, row)) else row

    return Aggregator(lambda: None, lambda row, new: pick(row, of(new)), pick, value)


def mean(of: Of = _itself) -> Aggregator:
    """The average. What the store keeps is [count, sum]."""
    return Aggregator(
        lambda: [0, 0.0],
        lambda row, new: [row[0] + 1, row[1] + of(new)],
        lambda one, other: [one[0] + other[0], one[1] + other[1]],
        list,
        lambda row: row[1] / row[0] if row[0] else None,
        float,
    )


def first(of: Of = _itself, *, value: SerdeLike = dict) -> Aggregator:
    """The first in order of arrival."""
    return Aggregator(lambda: None, lambda row, new: of(new) if row is None else row, _earlier, value)


def last(of: Of = _itself, *, value: SerdeLike = dict) -> Aggregator:
    """The last in order of arrival."""
    return Aggregator(lambda: None, lambda row, new: of(new), lambda one, other: _earlier(other, one), value)


def _earlier(one: Any, other: Any) -> Any:
    return other if one is None else one


def top_k(k: int, of: Of = _itself, *, by: Of = _itself) -> Aggregator:
    """The k largest, largest first; of equal ones the earlier. `by` says what is compared of `of(value)`."""
    if not isinstance(k, int) or k < 1:
        raise TopologyError(f"top_k is to keep {k!r} values; give 1 or more")

    def largest(values: list[Any]) -> list[Any]:
        return heapq.nlargest(k, values, key=by)

    return Aggregator(list, lambda row, new: largest([*row, of(new)]), lambda one, other: largest([*one, *other]), list)


def collect(of: Of = _itself, *, most: int | None = None) -> Aggregator:
    """All values in order of arrival, or the last `most` of them."""
    if most is not None and (not isinstance(most, int) or most < 1):
        raise TopologyError(f"collect is to keep {most!r} values; give 1 or more")

    def kept(row: list[Any]) -> list[Any]:
        return row if most is None else row[-most:]

    return Aggregator(list, lambda row, new: kept([*row, of(new)]), lambda one, other: kept([*one, *other]), list)
