"""The data that moves through the engine: positions in a log, raw columns of logs, and the chunks between steps."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import accumulate, chain, compress, repeat
from typing import Any, NamedTuple

from streamtopo.errors import StreamtopoError

Headers = tuple[tuple[str, bytes | None], ...]
Order = int | tuple[int, ...]
"""The place of a row among all rows of a round: the record's number, then an index at each fork and emission."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Position(NamedTuple):
    """The next offset to read, and what the task must remember together with it."""

    offset: int
    metadata: str = ""


class Columns(NamedTuple):
    """Encoded records of one partition, column by column; `headers` is None if no record has headers."""

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers] | None = None


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The bytes of a record."""
    return len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") + 4 for name, text in headers)


def join_columns(parts: Sequence[Columns]) -> Columns:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    headers = None
    if any(part.headers is not None for part in parts):
        headers = [row for part in parts for row in part.headers or [()] * len(part.keys)]
    return Columns(
        list(chain.from_iterable(part.keys for part in parts)),
        list(chain.from_iterable(part.values for part in parts)),
        list(chain.from_iterable(part.timestamps for part in parts)),
        headers,
    )


def join_offsets(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """One after the other; a range where there are no gaps."""
    first, last = parts[0][0], parts[-1][-1]
    gapless = last - first + 1 == sum(map(len, parts))
    return range(first, last + 1) if gapless else list(chain.from_iterable(parts))


class Batch(NamedTuple):
    """Records read from one partition; `next_offset` is where to read next (after gaps and markers)."""

    source: TopicPartition
    columns: Columns
    offsets: Sequence[int]
    next_offset: int


@dataclass(slots=True)
class Chunk:
    """Decoded rows, column by column. A step takes a chunk and returns one; it must not change the one it was given.

    The class is not frozen, because creating a frozen object takes three times as long.
    """

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    headers: list[Headers] | None = None
    order: list[Order] | None = None
    """Kept only if a later node needs it: one where paths meet, or a processor."""
    sides: list[int] | None = None
    """For a node with several parents: which of them each row came from."""
    routes: list[int] | None = None
    """In the result of a node: the child that each row goes to, or EVERY_CHILD."""
    old: list[Any] | None = None
    """In the updates of a table, if a later node needs them: the old values, or OUTDATED."""

    def __len__(self) -> int:
        return len(self.keys)

    def with_keys(self, keys: list[Any]) -> Chunk:
        return replace(self, keys=keys)

    def with_values(self, values: list[Any]) -> Chunk:
        return replace(self, values=values)

    def with_rows(self, values: list[Any], timestamps: list[int]) -> Chunk:
        return replace(self, values=values, timestamps=timestamps)

    def with_old(self, old: list[Any] | None) -> Chunk:
        return replace(self, old=old)

    def routed(self, routes: list[int]) -> Chunk:
        return replace(self, routes=routes)

    def columns(self) -> list[list[Any] | None]:
        return [self.keys, self.values, self.timestamps, self.headers, self.order, self.sides, self.routes, self.old]

    def select(self, mask: Sequence[object]) -> Chunk:
        """The rows where `mask` is true."""
        return Chunk(*(column and list(compress(column, mask)) for column in self.columns()))  # type: ignore[arg-type]

    def without(self, rows: Sequence[int]) -> Chunk:
        """All rows but those at these places, which ascend. Fast for few places."""
        return Chunk(*(column and without(column, rows) for column in self.columns()))  # type: ignore[arg-type]

    def take(self, rows: Iterable[int]) -> Chunk:
        """The rows at these places, in this order."""
        rows = list(rows)
        return Chunk(*(column and [column[row] for row in rows] for column in self.columns()))  # type: ignore[arg-type]

    def row(self, place: int) -> Chunk:
        return Chunk(*(column and column[place : place + 1] for column in self.columns()))  # type: ignore[arg-type]

    def emit(self, places: list[int], keys: list[Any], values: list[Any]) -> Chunk:
        """New rows, each made from the row at its place; several rows made from one keep their order."""
        return self._emitted(lambda column: [column[place] for place in places], keys, values)

    def spread(self, counts: list[int], keys: list[Any], values: list[Any]) -> Chunk:
        """New rows, in the order of the rows they are made from; `counts` has the number for each row. See `emit`."""
        return self._emitted(lambda column: repeated(column, counts), keys, values)

    def _emitted(self, origins: Callable[[list[Any]], list[Any]], keys: list[Any], values: list[Any]) -> Chunk:
        return Chunk(
            keys,
            values,
            origins(self.timestamps),
            None if self.headers is None else origins(self.headers),
            None if self.order is None else emissions(origins(self.order)),
        )


@dataclass(slots=True)
class Puts:
    """Rows that a node put into its table, in their order: what nodes that watch the table are sent."""

    index: list[Hashable]
    """Keys as the store's `index` has them."""
    values: list[Any]
    """None where a row was deleted."""
    timestamps: list[int]
    order: list[Order]
    before: Mapping[Any, Any]
    """The rows of these keys before the first of these puts, and perhaps others."""

    def __len__(self) -> int:
        return len(self.index)

    def then(self, later: Puts) -> Puts:
        """These, then some that were put into the same table later."""
        return Puts(
            self.index + later.index,
            self.values + later.values,
            self.timestamps + later.timestamps,
            self.order + later.order,
            {**later.before, **self.before},
        )

    def among(self, order: list[Order]) -> PlacedPuts:
        """The same for a chunk whose rows have this order, which ascends."""
        places = [bisect_left(order, place) for place in self.order]
        return PlacedPuts(self.index, self.values, self.timestamps, places, self.before)


@dataclass(slots=True)
class PlacedPuts:
    """Puts into a table among the rows of a chunk: each came before the row at its place, and after the one before."""

    index: list[Hashable]
    values: list[Any]
    timestamps: list[int]
    places: list[int]
    before: Mapping[Any, Any]
    """The rows of these keys before the first of these puts, and perhaps others."""

    def moved(self, origins: list[int]) -> PlacedPuts:
        """The same for a chunk made of other rows, each released by the row at its origin; these ascend."""
        return replace(self, places=[bisect_left(origins, place) for place in self.places])


class Old(Enum):
    """Old value of an out-of-order update to a versioned table: the current row is unchanged."""

    OUTDATED = "outdated"


OUTDATED = Old.OUTDATED
EVERY_CHILD = -1
NOTHING = Chunk([], [], [])
ChunkFunction = Callable[[Chunk], Chunk]
"""What most operators are: rows in, rows out."""


def has_null(column: Collection[object]) -> bool:
    """`None in column`, but it tests truthiness first, which is much faster."""
    return not all(column) and None in column


def latest_so_far(times: list[int], before: int = -1) -> list[int]:
    """For each place, the largest time up to it, or `before` if that is larger. The result must not be changed."""
    if times == sorted(times) and (not times or before <= times[0]):
        return times
    return list(accumulate(times, max, initial=before))[1:]


def within(times: list[int], bound: int) -> list[int]:
    """The times, with -1 instead of those past the bound. The result must not be changed."""
    return times if max(times, default=-1) <= bound else [time if time <= bound else -1 for time in times]


def number_of(order: Order) -> int:
    """The number, within its round, of the record that a row was made from."""
    return order if isinstance(order, int) else order[0]


def below(order: Order, index: int) -> Order:
    """The order of the `index`-th row made from a row. A plain number stays a number: its ties never meet again."""
    return order if isinstance(order, int) else (*order, index)


def repeated(column: list[Any], counts: list[int]) -> list[Any]:
    """Each item, repeated as often as its count says."""
    return list(chain.from_iterable(map(repeat, column, counts)))


def emissions(order: list[Order]) -> list[Order]:
    """The order of emitted rows, each given its parent's: that, then a running index."""
    if not order or isinstance(order[0], int):
        return order
    return [below(place, index) for index, place in enumerate(order)]


def made_from(order: Sequence[Order], numbers: Iterable[int]) -> list[int]:
    """The places of rows made from these records, where the order ascends."""
    found: list[int] = []
    for number in sorted(numbers):
        bounds = (number, number + 1) if not order or isinstance(order[0], int) else ((number,), (number + 1,))
        found += range(*[bisect_left(order, bound) for bound in bounds])
    return found


def without(column: list[Any], places: Sequence[int]) -> list[Any]:
    """A copy without the items at these places, which ascend."""
    left = column.copy()
    for place in reversed(places):
        del left[place]
    return left


def interleave(chunks: Sequence[Chunk]) -> Chunk:
    """The rows of several chunks in one, by their order; `sides` says which chunk each came from."""
    together = concatenate(chunks)
    order = together.order
    if order is None:
        return together
    return together.take(sorted(range(len(order)), key=order.__getitem__))


def concatenate(chunks: Sequence[Chunk]) -> Chunk:
    headed = any(chunk.headers is not None for chunk in chunks)
    ordered = all(chunk.order is not None for chunk in chunks)
    changing = any(chunk.old is not None for chunk in chunks)
    return Chunk(
        [key for chunk in chunks for key in chunk.keys],
        [value for chunk in chunks for value in chunk.values],
        [timestamp for chunk in chunks for timestamp in chunk.timestamps],
        [header for chunk in chunks for header in chunk.headers or [()] * len(chunk)] if headed else None,
        [order for chunk in chunks for order in chunk.order or ()] if ordered else None,
        [side for side, chunk in enumerate(chunks) for _ in chunk.keys],
        old=[old for chunk in chunks for old in chunk.old or [None] * len(chunk)] if changing else None,
    )


def check_timestamp(time: Any, what: str) -> None:
    if type(time) is not int or time >= 1 << 63:
        hint = ": round(time.timestamp() * 1000)" if isinstance(time, datetime) else ""
        if isinstance(time, str):
            hint = "; for text, give a function: timestamp=lambda key, value: round(parsed(value).timestamp() * 1000)"
        raise StreamtopoError(
            f"{what} {time!r} as a timestamp; it must be milliseconds, as an int of at most 63 bits{hint}"
        )


IMMUTABLE = frozenset({str, bytes, int, float, bool, type(None), complex})


def private(value: Any) -> Any:
    """The value itself if it is immutable, else a copy that shares nothing with it."""
    kind = type(value)
    if kind in IMMUTABLE:
        return value
    if kind is dict:
        return {key: private(item) for key, item in value.items()}
    if kind is list:
        return [private(item) for item in value]
    if isinstance(value, tuple):
        if set(map(type, value)) <= IMMUTABLE:
            return value
        if kind is tuple:
            return tuple([private(item) for item in value])
    return copy.deepcopy(value)


def unshared(column: list[Any]) -> list[Any]:
    """The column with copies of its mutable values, so that a change through one row is not visible in another."""
    if set(map(type, column)) <= IMMUTABLE or len(set(map(id, column))) == len(column):
        return column
    seen: set[int] = set()
    return [private(value) if id(value) in seen else seen.add(id(value)) or value for value in column]  # type: ignore[func-returns-value]


def private_column(column: list[Any]) -> list[Any]:
    if set(map(type, column)) <= IMMUTABLE:
        return column
    return [private(value) for value in column]
