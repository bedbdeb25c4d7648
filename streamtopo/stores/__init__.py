"""What a store is: the description of one, and the protocol of the bytes behind a task's stores."""

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
    """Several rows of a key and time, under bytes that only the join knows."""
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
    """Milliseconds for which rows with a time in their key can be read; 0: for ever."""
    grace: int = 0
    """Milliseconds after their end for which windows take late records."""
    segment: int = 0
    """Milliseconds of rows that lie, and go, together; 0: all lie together."""
    by_time: bool = False
    """Rows are also found by the time in their key, whatever the rest of it is."""
    duplicates: bool = False
    """Of a window store: rows with equal keys and starts lie beside each other, numbered as they were put."""
    meaning: str = ""
    """What its rows stand for, as far as kind and types do not say it: rows of another meaning cannot be read."""
    topic_config: Mapping[str, str] = field(default_factory=dict)

    @property
    def timed(self) -> bool:
        """Whether the time of a window or a session is in its keys."""
        return self.kind in (Kind.WINDOW, Kind.TIMESTAMPED_WINDOW, Kind.SESSION)

    @property
    def timestamped(self) -> bool:
        """Whether a row keeps the time of its last update beside its value."""
        return self.kind in (Kind.TIMESTAMPED, Kind.TIMESTAMPED_WINDOW)


Changes = Mapping[bytes, bytes | None]
"""What a commit writes; None deletes."""


class Reader(Protocol):
    """Committed rows as they were at one moment."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...


class Store(Protocol):
    """The bytes behind all stores of one task, used by one thread; keys are ordered as bytes."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows with start <= key < stop as they were when the scan began."""
        ...

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The rows of each range: much less work than so many scans."""
        ...

    def write(self, changes: Changes, positions: Mapping[str, int], *, as_of: int | None = None) -> None:
        """Atomic: all changes, and for each store named the changelog offset they bring it to, or nothing.

        `as_of` is when nothing lay behind these offsets yet, if that may be some time ago: while a store is restored,
        when it last was at the changelog's end, or was begun.
        """
        ...

    def position(self, store: str) -> int | None:
        """The changelog offset this store's rows stand for; None for one never written."""
        ...

    def stamp(self, store: str) -> Stamp | None:
        """The position, and what tells whether it still means anything."""
        ...

    def belongs_to(self, store: str, log: str, changelog: str, layout: str = "") -> None:
        """From now on this store's positions are offsets in this changelog, by the ids of the log and the topic.

        `layout` is where its rows are from now on; it is kept with the position.
        """
        ...

    def delete_range(self, start: bytes, stop: bytes, *, forget: str | None = None) -> None:
        """Delete the rows with start <= key < stop and, at once with them, the position of the store to forget."""
        ...

    def snapshot(self) -> AbstractContextManager[Reader]:
        """What is committed now, for readers in any thread."""
        ...

    def close(self) -> None: ...
