"""Tables derived row by row from another one, by filter and map values. They may keep rows or not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.conversions import old_values, put
from streamtopo.records import OUTDATED, Chunk, ChunkFunction
from streamtopo.row_calls import each_row
from streamtopo.stores.rows.state import Row, State

Column = list[Any]
Convert = Callable[[Column, Column], Column]
"""(keys, values) -> values. None stays None."""
Derive = Callable[[Any, Row | None], Row | None]
"""(key, row of the other table) -> the row."""


def mapping(function: Callable[..., Any], *, with_key: bool) -> Convert:
    if with_key:
        return lambda keys, values: _where_there(function, values, keys, values)
    return lambda _, values: _where_there(function, values, values)


def sifting(predicate: Callable[[Any, Any], object], *, keep: bool) -> Convert:
    def convert(keys: Column, values: Column) -> Column:
        passed = _where_there(predicate, values, keys, values)
        return [
            value if value is OUTDATED or bool(passes) is keep else None
            for value, passes in zip(values, passed, strict=True)
        ]

    return convert


def _where_there(function: Callable[..., Any], values: Column, *arguments: Column) -> Column:
    """The results of the function, which is not called for None and OUTDATED."""
    there = [value is not None and value is not OUTDATED for value in values]
    if all(there):
        return each_row(function, *arguments)
    results = iter(each_row(function, *(list(compress(column, there)) for column in arguments)))
    return [next(results) if is_there else value for value, is_there in zip(values, there, strict=True)]


def row_by_row(convert: Convert) -> Derive:
    def derive(key: Any, row: Row | None) -> Row | None:
        if row is None:
            return None
        (value,) = convert([key], [row[0]])
        return None if value is None else (value, row[1])

    return derive


def derived(convert: Convert, *, sends_old: bool) -> ChunkFunction:
    """A table that keeps no rows: new and old values are derived from those of the other table."""

    def step(chunk: Chunk) -> Chunk:
        old = convert(chunk.keys, old_values(chunk)) if sends_old else unsent(chunk.old)
        return chunk.with_values(convert(chunk.keys, chunk.values)).with_old(old)

    return step


def unsent(old: Column | None) -> Column | None:
    """Old values if they are not needed: only whether an update was out of order."""
    if old is None or not any(value is OUTDATED for value in old):
        return None
    return [value if value is OUTDATED else None for value in old]


def filtered(convert: Convert, *, sends_old: bool) -> ChunkFunction:
    """A row that fails the predicate is deleted, unless its old value is known and failed too."""
    step = derived(convert, sends_old=sends_old)

    def needed(chunk: Chunk) -> Chunk:
        chunk = step(chunk)
        mask = [new is not None or old is not None for new, old in zip(chunk.values, old_values(chunk), strict=True)]
        return chunk if all(mask) else chunk.select(mask)

    return needed if sends_old else step


def kept(convert: Convert, state: State) -> Keeping:
    return Keeping(lambda chunk: put(state, chunk.with_values(convert(chunk.keys, chunk.values))), state)


def kept_filtered(convert: Convert, state: State) -> Keeping:
    def step(chunk: Chunk) -> Chunk:
        chunk = chunk.with_values(convert(chunk.keys, chunk.values))
        return put(state, _changing(state, chunk) if state.forwarding.sends_old else chunk)

    return Keeping(step, state)


def _changing(state: State, chunk: Chunk) -> Chunk:
    """Updates without the deletions of rows that do not exist."""
    index = state.index(chunk.keys)
    rows = state.look(index)
    there = {key: rows[key] is not None for key in index}
    mask = []
    for key, value in zip(index, chunk.values, strict=True):
        mask.append(value is not None or there[key])
        there[key] = value is not None
    return chunk if all(mask) else chunk.select(mask)
