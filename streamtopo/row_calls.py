"""Functions of the user's, called for each row. Rows that they fail on can be left out, while the others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from streamtopo.errors import StreamtopoError, faults
from streamtopo.records import Chunk, Order, made_from, number_of, without


class Running(Protocol):
    """Runs nodes."""

    running: str
    """The node that runs now."""


class FailedRow(NamedTuple):
    node: str
    order: Order | None
    key: Any
    value: Any
    error: Exception


FailedRows = list[FailedRow]
_PART = 64
"""So many values are converted together where some cannot be."""


class _LeavingOut(threading.local):
    failed: FailedRows | None = None
    unit: Running
    undone = False


_leaving_out = _LeavingOut()


@contextmanager
def leaving_out(unit: Running, *, undone: bool = False) -> Iterator[FailedRows]:
    """In this block, and in this thread, rows that fail in the unit are noted in the list, and left out.

    `undone`: if one fails, all that is done in this block will be undone, also that of other rows.
    """
    before, _leaving_out.failed = _leaving_out.failed, []
    _leaving_out.unit, _leaving_out.undone = unit, undone
    try:
        yield _leaving_out.failed
    finally:
        _leaving_out.failed = before


def each_row(function: Callable[..., Any], *columns: list[Any]) -> list[Any]:
    """The function's result for each row."""
    results = list(map(function, *columns))
    if len(results) != len(columns[0]):
        raise _stopped()
    return results


def results_of(function: Callable[..., Any], chunk: Chunk, *columns: list[Any]) -> tuple[Chunk, list[Any]]:
    """The rows for which the function has a result, and the results. The columns are those of the chunk."""
    calls = map(function, *columns)
    results: list[Any] = []
    failed: list[int] = []
    while True:
        try:
            results += calls
            if len(results) + len(failed) == len(chunk):
                break
            raise _stopped()
        except faults() as error:  # the calls before it have their results, and the next ones can still be made
            failed.append(len(results) + len(failed))
            if not noted(chunk, failed[-1], error):
                raise
    return (chunk.without(failed), results) if failed else (chunk, results)


def converted(convert: Callable[[list[Any]], list[Any]], chunk: Chunk, column: list[Any]) -> tuple[Chunk, list[Any]]:
    """The same for a function that converts a whole column. It may be called again for parts of it."""
    try:
        return chunk, convert(column)
    except faults():
        if _leaving_out.failed is None:
            raise
    results, errors = in_parts(convert, lambda value: convert([value])[0], column)
    failed = list(errors)
    for place in failed:
        noted(chunk, place, errors.pop(place))
    return chunk.without(failed), without(results, failed)


def in_parts(
    together: Callable[[list[Any]], list[Any]], one: Callable[[Any], Any], column: list[Any]
) -> tuple[list[Any], dict[int, Exception]]:
    """The column converted, with None where that fails; the errors are given by place, in their order.

    Parts of it are converted `together`, those in which something fails `one` by one.
    """
    results: list[Any] = []
    errors: dict[int, Exception] = {}
    for first in range(0, len(column), _PART):
        part = column[first : first + _PART]
        try:
            results += together(part)
            continue
        except faults():
            pass  # not the context of the errors below, which say the same
        for place, value in enumerate(part, first):
            try:
                results.append(one(value))
            except faults() as error:
                errors[place] = error
                results.append(None)
    return results, errors


def _stopped() -> StreamtopoError:
    """StopIteration looks like the end of the column."""
    return StreamtopoError("the function raised StopIteration; if that came from next(), give next() a default")


def may_leave_out() -> bool:
    """Whether rows that fail may be left out here."""
    return _leaving_out.failed is not None


def noted(chunk: Chunk, place: int, error: Exception) -> bool:
    """The function failed on this row. False if rows must not be left out here: then the caller raises the error."""
    order = None if chunk.order is None else chunk.order[place]
    return noted_row(order, chunk.keys[place], chunk.values[place], error)


def noted_alone(chunk: Chunk, place: int, error: Exception) -> bool:
    """The same in a step that keeps rows: also False if it may have kept others of the same record."""
    order = chunk.order
    if not _leaving_out.undone and order is not None and len(made_from(order, [number_of(order[place])])) > 1:
        return False
    return noted(chunk, place, error)


def noted_halfway(chunk: Chunk, place: int, error: Exception) -> bool:
    """The same in a step that may have kept something of this row: also False if that will not be undone."""
    return _leaving_out.undone and noted(chunk, place, error)


def noted_row(order: Order | None, key: Any, value: Any, error: Exception) -> bool:
    if _leaving_out.failed is None:
        return False
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # the frame of the caller would keep all the rows in memory
    _leaving_out.failed.append(FailedRow(_leaving_out.unit.running, order, key, value, error))
    return True
