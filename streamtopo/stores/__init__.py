"""The description of a state store, and the protocol of the storage for all stores of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from streamtopo.serdes import Serde
from streamtopo.stores.trust import Stamp


class Kind(Enum):
    KEY_VALUE = "key-value"
    TIMESTAMPED = "timestamped key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    SESSION = "session"
    JOIN = "stream join"
    """Several rows for a key and time, under bytes that only the join can read."""
    VERSIONED = "versioned"


@dataclass(frozen=True)
class StoreSpec:
    """One state store of a topology; every task that uses it has its own rows."""

    name: str
    key: Serde
    value: Serde
    kind: Kind = Kind.TIMESTAMPED
    logged: bool = True
    cached: bool = False
    in_memory: bool = False
    retention: int = 0
    """Milliseconds for which rows with a time in their key can be read; 0: forever."""
    grace: int = 0
    """Milliseconds after their end for which windows accept late records."""
    segment: int = 0
    """The time span, in milliseconds, of rows that are stored and deleted together; 0: one segment for all rows."""
    by_time: bool = False
    """Rows can also be found by the time in their key alone."""
    duplicates: bool = False
    """In a window store: keep all rows with the same key and start, numbered in the order they were put."""
    meaning: str = ""
    """What the rows mean, in addition to the kind and the types: rows with another meaning cannot be read."""
    topic_config: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.name}: {self.kind.value}, {self.key.shown} to {self.value.shown}"

    @property
    def timed(self) -> bool:
        """Whether the time of a window or a session is in its keys."""
        return self.kind in (Kind.WINDOW, Kind.TIMESTAMPED_WINDOW, Kind.SESSION)

    @property
    def timestamped(self) -> bool:
        """Whether a row has the time of its last update, besides its value."""
        return self.kind in (Kind.TIMESTAMPED, Kind.TIMESTAMPED_WINDOW)


Changes = Mapping[bytes, bytes | None]
"""What a commit writes; None deletes."""


class Reader(Protocol):
    """Committed rows as they were at one moment."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...


class Store(Protocol):
    """The storage for all stores of one task, used by one thread; keys are ordered as bytes."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows with start <= key < stop as they were when the scan began."""
        ...

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The rows of each range: much less work than a scan for each."""
        ...

    def write(self, changes: Changes, positions: Mapping[str, int], *, as_of: int | None = None) -> None:
        """Write, atomically, all changes, and for each named store its changelog offset after them.

        `as_of` is the last time when the store was complete up to the changelog's end, if that may be some time ago:
        while a store is restored, this is when it was last complete, or when it was created.
        """
        ...

    def position(self, store: str) -> int | None:
        """The changelog offset that this store's rows include; None for a store that was never written."""
        ...

    def stamp(self, store: str) -> Stamp | None:
        """The position, with what is needed to decide whether it is still valid."""
        ...

    def belongs_to(self, store: str, log: str, changelog: str, layout: str = "") -> None:
        """From now on this store's positions are offsets in this changelog, by the ids of the log and the topic.

        `layout` describes how its rows are laid out from now on; it is stored with the position.
        """
        ...

    def delete_range(self, start: bytes, stop: bytes, *, forget: str | None = None) -> None:
        """Delete the rows with start <= key < stop, and in the same step the position of the store `forget`."""
        ...

    def snapshot(self) -> AbstractContextManager[Reader]:
        """What is committed now, for readers in any thread."""
        ...

    def close(self) -> None: ...
