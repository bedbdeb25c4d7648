"""What passes through: positions in a log, raw columns as logs hold them, and the chunk that steps hand on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate, chain, compress, repeat
from typing import Any, NamedTuple

from streamtopo.errors import StreamtopoError

Headers = tuple[tuple[str, bytes | None], ...]
Order = int | tuple[int, ...]
"""Where a row stands among all rows of a round: the record's number, then an index at each fork and emission."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Position(NamedTuple):
    """The next offset to read, and what the task must remember with it."""

    offset: int
    metadata: str = ""


class Columns(NamedTuple):
    """Encoded records of one partition, column by column; `headers` is None when no record has any."""

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers] | None = None


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
    """Records read from one partition; `next_offset` is where reading goes on (past gaps and markers)."""

    source: TopicPartition
    columns: Columns
    offsets: Sequence[int]
    next_offset: int


@dataclass(slots=True)
class Chunk:
    """Decoded rows, column by column. Steps take one and return one, and change nothing they were given.

    Not frozen, only because that makes one three times as dear.
    """

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    headers: list[Headers] | None = None
    order: list[Order] | None = None
    """Kept only where a later meeting point or a processor needs it."""
    sides: list[int] | None = None
    """In the chunk of a node with several parents: which of them each row came from."""
    routes: list[int] | None = None
    """In what a node returns: the child each row goes to, or EVERY_CHILD."""
    old: list[Any] | None = None
    """In the updates of a table, where somebody needs them: the values before, or OUTDATED."""

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
        """New rows, so many made from each row, in its order: `emit` for what is made in the rows' own order."""
        return self._emitted(lambda column: repeated(column, counts), keys, values)

    def _emitted(self, origins: Callable[[list[Any]], list[Any]], keys: list[Any], values: list[Any]) -> Chunk:
        return Chunk(
            keys,
            values,
            origins(self.timestamps),
            None if self.headers is None else origins(self.headers),
            None if self.order is None else emissions(origins(self.order)),
        )


class Old(Enum):
    """Stands for the old value of an update that changed a version before the latest: the table as it is now stays."""

    OUTDATED = "outdated"


OUTDATED = Old.OUTDATED
EVERY_CHILD = -1
NOTHING = Chunk([], [], [])
Step = Callable[[Chunk], Chunk]


def has_null(column: Collection[object]) -> bool:
    """`None in column`, which compares item by item, only where an item is false: that is told much faster."""
    return not all(column) and None in column


def latest_so_far(times: list[int], before: int = -1) -> list[int]:
    """For each place the largest time up to it, or `before` where that is larger; nobody changes what it returns."""
    if times == sorted(times) and (not times or before <= times[0]):
        return times
    return list(accumulate(times, max, initial=before))[1:]


def within(times: list[int], bound: int) -> list[int]:
    """The times, with -1 in place of those past the bound; nobody changes what it returns."""
    return times if max(times, default=-1) <= bound else [time if time <= bound else -1 for time in times]


def number_of(order: Order) -> int:
    """The number, within its round, of the record that a row stems from."""
    return order if isinstance(order, int) else order[0]


def below(order: Order, index: int) -> Order:
    """The order of the `index`-th thing that came of a row; plain numbers are kept where ties cannot meet."""
    return order if isinstance(order, int) else (*order, index)


def repeated(column: list[Any], counts: list[int]) -> list[Any]:
    """Each item so many times."""
    return list(chain.from_iterable(map(repeat, column, counts)))


def emissions(order: list[Order]) -> list[Order]:
    """The order of emitted rows, each given its parent's: that, then a running index."""
    if not order or isinstance(order[0], int):
        return order
    return [below(place, index) for index, place in enumerate(order)]


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


def each_row(function: Callable[..., Any], *columns: list[Any]) -> list[Any]:
    """The function's result for each row. A StopIteration from it would look like the end of the column."""
    results = list(map(function, *columns))
    if len(results) != len(columns[0]):
        raise StreamtopoError("the function raised StopIteration; if that came from next(), give next() a default")
    return results


def check_timestamp(time: Any, what: str) -> None:
    if type(time) is not int or time >= 1 << 63:
        raise StreamtopoError(f"{what} {time!r} as a timestamp; it must be milliseconds, as an int of at most 63 bits")


IMMUTABLE = frozenset({str, bytes, int, float, bool, type(None), complex})


def private(value: Any) -> Any:
    """The value itself where nobody can change it, else a copy that shares nothing with it."""
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
    """The column with no object in it twice that could be changed through one row and seen through another."""
    if set(map(type, column)) <= IMMUTABLE or len(set(map(id, column))) == len(column):
        return column
    seen: set[int] = set()
    return [private(value) if id(value) in seen else seen.add(id(value)) or value for value in column]  # type: ignore[func-returns-value]


def private_column(column: list[Any]) -> list[Any]:
    if set(map(type, column)) <= IMMUTABLE:
        return column
    return [private(value) for value in column]
