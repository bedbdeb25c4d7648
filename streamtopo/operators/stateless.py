"""Steps without state: map, filter, flat map, select key, peek, branch, and their variants for columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from streamtopo.errors import StreamtopoError
from streamtopo.records import Chunk, ChunkFunction, private, repeated, unshared
from streamtopo.row_calls import results_of

KeyAndValue = tuple[Any, Any]


def each(chunk: Chunk) -> Chunk:
    """The unchanged rows: for merges, branches and repartition sources."""
    return chunk


def map_values(function: Callable[[Any], Any]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, values = results_of(function, chunk, chunk.values)
        return chunk.with_values(values)

    return step


def map_values_with_key(function: Callable[[Any, Any], Any]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, values = results_of(function, chunk, chunk.keys, chunk.values)
        return chunk.with_values(values)

    return step


def map_pairs(function: Callable[[Any, Any], KeyAndValue]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, pairs = results_of(function, chunk, chunk.keys, chunk.values)
        keys, values = _unzipped(pairs)
        return chunk.with_keys(keys).with_values(values)

    return step


def _unzipped(pairs: list[KeyAndValue]) -> tuple[list[Any], list[Any]]:
    if not set(map(type, pairs)) <= {tuple, list}:
        wrong = next(pair for pair in pairs if type(pair) not in (tuple, list))
        raise StreamtopoError(f"the function returned {wrong!r:.80}; return a pair: (key, value)")
    return [key for key, _ in pairs], [value for _, value in pairs]


def select_key(function: Callable[[Any, Any], Any]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, keys = results_of(function, chunk, chunk.keys, chunk.values)
        return chunk.with_keys(keys)

    return step


def filter_rows(predicate: Callable[[Any, Any], object], *, keep: bool = True) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, mask = results_of(predicate, chunk, chunk.keys, chunk.values)
        return chunk.select(mask if keep else [not passed for passed in mask])

    return step


def flat_map_values(function: Callable[[Any], Iterable[Any]]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        return _spread(*results_of(_listing(function), chunk, chunk.values))

    return step


def flat_map_values_with_key(function: Callable[[Any, Any], Iterable[Any]]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        return _spread(*results_of(_listing(function), chunk, chunk.keys, chunk.values))

    return step


def _spread(chunk: Chunk, lists: list[list[Any]]) -> Chunk:
    counts = list(map(len, lists))
    return chunk.spread(counts, repeated(chunk.keys, counts), unshared(list(chain.from_iterable(lists))))


def _listing(function: Callable[..., Iterable[Any]]) -> Callable[..., list[Any]]:
    """The function, with its results as a list. What a generator yields is copied at that moment."""

    def rows_of(*row: Any) -> list[Any]:
        rows = function(*row)
        if type(rows) is list:
            return rows
        if isinstance(rows, str | bytes | dict) or rows is None:
            raise StreamtopoError(f"the function returned {rows!r:.80}; return a list, or yield rows")
        return [private(item) for item in rows]

    return rows_of


def flat_map(function: Callable[[Any, Any], Iterable[KeyAndValue]]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, lists = results_of(_listing(function), chunk, chunk.keys, chunk.values)
        keys, values = _unzipped(list(chain.from_iterable(lists)))
        return chunk.spread(list(map(len, lists)), keys, unshared(values))

    return step


def peek(function: Callable[[Any, Any], object]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        return results_of(function, chunk, chunk.keys, chunk.values)[0]

    return step


def branch(predicates: Sequence[Callable[[Any, Any], object]], *, default: bool) -> ChunkFunction:
    """Send each row to the child of the first predicate that is true; others to the last child, or nowhere."""

    def route(key: Any, value: Any) -> int | None:
        for child, predicate in enumerate(predicates):
            if predicate(key, value):
                return child
        return len(predicates) if default else None

    def step(chunk: Chunk) -> Chunk:
        chunk, routes = results_of(route, chunk, chunk.keys, chunk.values)
        found = chunk.select([child is not None for child in routes])
        return found.routed([child for child in routes if child is not None])

    return step


def map_values_batch(function: Callable[[list[Any]], Iterable[Any]]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        return chunk.with_values(_column(function(list(chunk.values)), len(chunk)))

    return step


def map_batch(function: Callable[[list[Any], list[Any]], tuple[Iterable[Any], Iterable[Any]]]) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        keys, values = function(list(chunk.keys), list(chunk.values))
        return chunk.with_keys(_column(keys, len(chunk))).with_values(_column(values, len(chunk)))

    return step


def _column(result: Any, rows: int) -> list[Any]:
    """A list of Python objects from any kind of column, such as those of numpy and Arrow."""
    to_list = getattr(result, "tolist", None) or getattr(result, "to_pylist", None)
    column = to_list() if to_list is not None else list(result)
    if len(column) != rows:
        raise StreamtopoError(f"the batch function returned {len(column)} rows for {rows}; return one for each")
    return column
