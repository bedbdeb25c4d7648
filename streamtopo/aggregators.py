"""Ready-made aggregators for `aggregate`: sum, minimum, maximum, mean, first, last, top k, and all values.

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
from typing import Any, Generic, overload

from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.records.type_parameters import V1, V2, VIn, VOut
from streamtopo.serdes import SerdeLike

Of = Callable[[Any], Any]
"""The part of a value that is aggregated."""
_EXACT = 2**53
"""Larger ints may have no exact float."""


@dataclass(frozen=True)
class Aggregator(Generic[VIn, VOut]):
    """A row starts as `init()`, `add` adds a value to it, and `merge` combines the rows of two sessions.

    The types are those of the values and of the results.
    """

    init: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    """A function of (row, value) that returns the new row. It may change the row and return it."""
    merge: Callable[[Any, Any], Any]
    """A function of (row, later row) that returns the row of both."""
    value: SerdeLike | None
    """The type of the rows. None: the type of the stream's values."""
    finish: Callable[[Any], Any] | None = None
    """Makes the result from a row. None: the row is the result."""
    finished: SerdeLike | None = None
    """The type of the result."""

    def adder(self, key: Any, value: Any, row: Any) -> Any:
        """Ignores records without a value. Windowed aggregations get such records, others do not."""
        return row if value is None else self.add(row, value)

    def merger(self, key: Any, one: Any, other: Any) -> Any:
        return self.merge(one, other)


def _itself(value: Any) -> Any:
    return value


@overload
def sum(*, value: SerdeLike[V2] | None = None) -> Aggregator[V2, V2]: ...
@overload
def sum(of: Callable[[V1], float]) -> Aggregator[V1, float]: ...
@overload
def sum(of: Callable[[V1], V2], *, value: SerdeLike[V2]) -> Aggregator[V1, V2]: ...
def sum(of: Of = _itself, *, value: SerdeLike | None = None) -> Aggregator:
    """The sum. Its type is that of the stream's values; with `of` it is float, or `value`, such as `value=int`.

    Ints that have no exact float are an error, unless you declare `value=float`.
    """
    if of is _itself or value is not None:
        zero = 0.0 if value is float else 0
        return Aggregator(lambda: zero, lambda row, new: row + of(new), lambda one, other: one + other, value)
    return Aggregator(lambda: 0.0, lambda row, new: _exact(row, of(new)), lambda one, other: one + other, float)


def _exact(row: float, new: Any) -> Any:
    total = row + new
    if type(new) is int and (abs(new) > _EXACT or abs(total) > _EXACT):
        raise StreamtopoError(f"{row!r} + {new!r} is not exact as a float; give sum(…, value=int)")
    return total


@overload
def min(*, value: SerdeLike[V2] | None = None) -> Aggregator[V2, V2]: ...
@overload
def min(of: Callable[[V1], float | None]) -> Aggregator[V1, float]: ...
@overload
def min(of: Callable[[V1], V2 | None], *, value: SerdeLike[V2]) -> Aggregator[V1, V2]: ...
def min(of: Of = _itself, *, value: SerdeLike | None = None) -> Aggregator:
    """The smallest value. Its type is that of the stream's values; with `of` it is float, or `value`."""
    return _best(of, lambda new, old: new < old, _or(value, float, of))


@overload
def max(*, value: SerdeLike[V2] | None = None) -> Aggregator[V2, V2]: ...
@overload
def max(of: Callable[[V1], float | None]) -> Aggregator[V1, float]: ...
@overload
def max(of: Callable[[V1], V2 | None], *, value: SerdeLike[V2]) -> Aggregator[V1, V2]: ...
def max(of: Of = _itself, *, value: SerdeLike | None = None) -> Aggregator:
    """The largest value. Its type is that of the stream's values; with `of` it is float, or `value`."""
    return _best(of, lambda new, old: new > old, _or(value, float, of))


def _or(value: SerdeLike | None, usual: SerdeLike, of: Of) -> SerdeLike | None:
    return usual if value is None and of is not _itself else value


def _best(of: Of, better: Callable[[Any, Any], bool], value: SerdeLike | None) -> Aggregator:
    def pick(row: Any, new: Any) -> Any:
        return new if row is None or (new is not None and better(new, row)) else row

    return Aggregator(lambda: None, lambda row, new: pick(row, of(new)), pick, value)


@overload
def mean() -> Aggregator[float, float]: ...
@overload
def mean(of: Callable[[V1], float]) -> Aggregator[V1, float]: ...
def mean(of: Of = _itself) -> Aggregator:
    """The average. The store keeps [count, sum]."""
    return Aggregator(
        lambda: [0, 0],
        lambda row, new: [row[0] + 1, row[1] + of(new)],
        lambda one, other: [one[0] + other[0], one[1] + other[1]],
        list,
        lambda row: row[1] / row[0] if row[0] else None,
        float,
    )


@overload
def first(*, value: SerdeLike[V2] | None = None) -> Aggregator[V2, V2]: ...
@overload
def first(of: Callable[[V1], dict[str, Any] | None]) -> Aggregator[V1, dict[str, Any]]: ...
@overload
def first(of: Callable[[V1], V2 | None], *, value: SerdeLike[V2]) -> Aggregator[V1, V2]: ...
def first(of: Of = _itself, *, value: SerdeLike | None = None) -> Aggregator:
    """The first value that arrived. `value` is the type that `of` returns; the default is dict."""
    return Aggregator(lambda: None, lambda row, new: of(new) if row is None else row, _earlier, _or(value, dict, of))


@overload
def last(*, value: SerdeLike[V2] | None = None) -> Aggregator[V2, V2]: ...
@overload
def last(of: Callable[[V1], dict[str, Any] | None]) -> Aggregator[V1, dict[str, Any]]: ...
@overload
def last(of: Callable[[V1], V2 | None], *, value: SerdeLike[V2]) -> Aggregator[V1, V2]: ...
def last(of: Of = _itself, *, value: SerdeLike | None = None) -> Aggregator:
    """The last value that arrived. `value` is the type that `of` returns; the default is dict."""
    return Aggregator(
        lambda: None, lambda row, new: of(new), lambda one, other: _earlier(other, one), _or(value, dict, of)
    )


def _earlier(one: Any, other: Any) -> Any:
    return other if one is None else one


@overload
def top_k(k: int, *, by: Callable[[V1], Any] = ..., value: SerdeLike[list[V1]] = ...) -> Aggregator[V1, list[V1]]: ...
@overload
def top_k(
    k: int, of: Callable[[V1], V2], *, by: Callable[[V2], Any] = ..., value: SerdeLike[list[V2]] = ...
) -> Aggregator[V1, list[V2]]: ...
def top_k(k: int, of: Of = _itself, *, by: Of = _itself, value: SerdeLike = list) -> Aggregator:
    """The k largest values, largest first. `by(of(value))` is compared. Of equal values, the earlier comes first.

    `value` is the type of the rows, such as `list[Order]`, for values that are not plain JSON.
    """
    if not isinstance(k, int) or k < 1:
        raise TopologyError(f"top_k would keep {k!r} values; give 1 or more")

    def largest(values: list[Any]) -> list[Any]:
        return heapq.nlargest(k, values, key=by)

    return Aggregator(
        list, lambda row, new: largest([*row, of(new)]), lambda one, other: largest([*one, *other]), value
    )


@overload
def collect(*, most: int | None = None, value: SerdeLike[list[V1]] = ...) -> Aggregator[V1, list[V1]]: ...
@overload
def collect(
    of: Callable[[V1], V2], *, most: int | None = None, value: SerdeLike[list[V2]] = ...
) -> Aggregator[V1, list[V2]]: ...
def collect(of: Of = _itself, *, most: int | None = None, value: SerdeLike = list) -> Aggregator:
    """All values, or the last `most`, in order of arrival. `value` is the type of the rows, such as `list[Order]`."""
    if most is not None and (not isinstance(most, int) or most < 1):
        raise TopologyError(f"collect would keep {most!r} values; give 1 or more")

    def kept(row: list[Any]) -> list[Any]:
        return row if most is None else row[-most:]

    return Aggregator(list, lambda row, new: kept([*row, of(new)]), lambda one, other: kept([*one, *other]), value)
