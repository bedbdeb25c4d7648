"""What a query can be answered: a row, or why there is none now. The refusals can be raised, or be looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamtopo.errors import StreamtopoError


class Found(NamedTuple):
    """What the key has; None, and -1, where it has no row. Stores without timestamps have -1 too."""

    value: Any
    timestamp: int = -1


class QueryError(StreamtopoError):
    """A query that cannot be answered."""


class UnknownStore(QueryError):
    """The topology has no such store, or one that cannot be asked in this way."""


class NotOwner(QueryError):
    """The rows are with another process; `address` is where that answers queries, None if it does not say."""

    def __init__(self, store: str, partition: int, address: str | None = None, reason: str = "") -> None:
        where = f"ask {address}" if address else "no process that answers queries has it now"
        super().__init__(f'partition {partition} of store "{store}" is not here; {reason or where}')
        self.store = store
        self.partition = partition
        self.address = address


class Restoring(QueryError):
    """The rows are here, but not whole yet: `done` of `total` changelog records have been restored."""

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
