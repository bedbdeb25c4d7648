"""The answers to a query: a row, or the reason why it is not available now, which can be raised or returned."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamtopo.errors import StepError, StreamtopoError


class Found(NamedTuple):
    """The value and timestamp of a key; None and -1 if it has no row. Stores without timestamps also have -1."""

    value: Any
    timestamp: int = -1


class QueryError(StreamtopoError):
    """The query cannot be answered."""


class UnknownStore(QueryError):
    """The topology has no such store, or it does not support this kind of query."""


class NotOwner(QueryError):
    """Another process has the rows. `address` is where it answers queries, or None if this is not known."""

    def __init__(self, store: str, partition: int, address: str | None = None, reason: str = "") -> None:
        where = f"query {address}" if address else "no process that answers queries has it now"
        super().__init__(f'partition {partition} of store "{store}" is not here; {reason or where}')
        self.store = store
        self.partition = partition
        self.address = address


class EngineFailed(QueryError):
    """The engine of this process has failed, and no other process has the rows.

    The message may be shown to clients of a service: it says where the engine failed, and has no data of records.
    `__cause__` is the whole error.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the engine failed: {_without_data(error)}; its log says more")
        self.__cause__ = error


def _without_data(error: BaseException) -> str:
    if isinstance(error, StepError):
        return f"{error.failed.step} failed on {error.failed.place}: {type(error.failed.cause).__name__}"
    return str(error).partition("\n")[0] if isinstance(error, StreamtopoError) else type(error).__name__


class Restoring(QueryError):
    """This process restores the rows: `done` of `total` changelog records are restored."""

    def __init__(self, store: str, partition: int, done: int = 0, total: int = 0) -> None:
        super().__init__(f'partition {partition} of store "{store}" is being restored ({done} of {total} records)')
        self.store = store
        self.partition = partition
        self.done = done
        self.total = total

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return self.done / self.total if self.total else 0.0


Answer = Found | NotOwner | Restoring
