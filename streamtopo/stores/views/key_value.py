"""A store as processors and tests see it: the methods of Kafka Streams' key-value store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, cast

from streamtopo.errors import StoreError
from streamtopo.hints import hinted
from streamtopo.records import private
from streamtopo.records.type_parameters import TK, T, V
from streamtopo.serdes import identity_of
from streamtopo.stores.rows.state import Row, State
from streamtopo.stores.rows.versions import REJECTED, Chain, Version, as_of, between, latest, with_version

Pair = tuple[Any, Any]


class ValueAndTimestamp(NamedTuple, Generic[V]):
    value: V
    timestamp: int


@hinted
class KeyValueStore(Generic[TK, T]):
    """Keys are in the order of their bytes. If you change a value that a method returned, the store does not change."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._state.spec.shown})"

    def __init__(self, state: State, now: Callable[[], int]) -> None:
        self._state = state
        self._now = now
        self._index = identity_of(state.spec.key)

    def get(self, key: TK) -> T | None:
        """The value of a key; None if there is none."""
        row = self._row(key)
        return None if row is None else cast(T, private(row[0]))

    def get_with_timestamp(self, key: TK) -> ValueAndTimestamp[T] | None:
        """The value of a key, and the time of the record that set it; None if there is none."""
        row = self._row(key)
        return row and ValueAndTimestamp(private(row[0]), row[1])

    def put(self, key: TK, value: T | None, timestamp: int | None = None) -> None:
        """Set the value of a key; None deletes. The default timestamp is that of the current record."""
        time = self._now() if timestamp is None else timestamp
        self._check(key)
        kept = self._index(key)
        self._state.row(kept)
        self._state.put(kept, None if value is None else (private(value), time), time)

    def put_if_absent(self, key: TK, value: T) -> T | None:
        """Put the value if there is none. Returns the existing value, or None if there was none."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def put_all(self, pairs: Iterable[tuple[TK, T | None]]) -> None:
        """Put several pairs of a key and a value."""
        for key, value in pairs:
            self.put(key, value)

    def delete(self, key: TK) -> T | None:
        """Delete a row, and return its value; None if there was none."""
        before = self.get(key)
        self.put(key, None)
        return before

    def range(self, start: TK | None = None, stop: TK | None = None) -> Iterator[tuple[TK, T]]:
        """Rows from `start` to `stop`, both inclusive; None: no limit."""
        return self._scan(start, stop, reverse=False)

    def reverse_range(self, start: TK | None = None, stop: TK | None = None) -> Iterator[tuple[TK, T]]:
        """As `range`, with the last key first."""
        return self._scan(start, stop, reverse=True)

    def all(self) -> Iterator[tuple[TK, T]]:
        """All rows, in the order of the keys' bytes."""
        return self._scan(None, None, reverse=False)

    def reverse_all(self) -> Iterator[tuple[TK, T]]:
        """As `all`, with the last key first."""
        return self._scan(None, None, reverse=True)

    def prefix_scan(self, prefix: bytes | str) -> Iterator[tuple[TK, T]]:
        """Rows whose key, as bytes, starts with `prefix`."""
        start = prefix.encode() if isinstance(prefix, str) else prefix
        return self._pairs(self._state.scan(start, after_prefix(start)))

    def approximate_num_entries(self) -> int:
        """The number of rows. They are counted one by one."""
        return sum(1 for _ in self._state.scan(b"", None))

    def _check(self, key: Any) -> None:
        if key is None:
            raise StoreError(f'store "{self._state.spec.name}" was given a null key; every row needs a key')

    def _row(self, key: Any) -> Row | None:
        self._check(key)
        return self._state.row(self._index(key))

    def _scan(self, start: Any, stop: Any, *, reverse: bool) -> Iterator[tuple[TK, T]]:
        encode = self._state.spec.key.encode
        first = b"" if start is None else encode(start)
        past = None if stop is None else encode(stop) + b"\0"
        return self._pairs(self._state.scan(first, past, reverse=reverse))

    def _pairs(self, rows: Iterator[tuple[bytes, Row]]) -> Iterator[tuple[TK, T]]:
        decode = self._state.spec.key.decode
        return ((decode(key), private(row[0])) for key, row in rows)


class ReadOnlyStore(KeyValueStore[TK, T]):
    """A global store: only the processor that maintains it may change it."""

    def put(self, key: TK, value: T | None, timestamp: int | None = None) -> None:
        raise StoreError(
            f'global store "{self._state.spec.name}" can only be read here; write to the topic it is read from'
        )


class StoreTime(Protocol):
    time: int
    """The latest time that was put."""

    def observe(self, time: int) -> int:
        """A row with this time is put; returns the latest time."""
        ...


@hinted
class VersionedStore(Generic[TK, T]):
    """Rows with their history."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._state.spec.shown})"

    def __init__(self, state: State, time: StoreTime, expired: Callable[[], None]) -> None:
        """`expired` is called for each version that is older than the history."""
        self._state = state
        self._time = time
        self._expired = expired

    def put(self, key: TK, value: T | None, timestamp: int) -> int:
        """Put a version; None deletes. Returns when the next version begins, LATEST (-1), or REJECTED if too old."""
        if timestamp < self._oldest:
            self._expired()
            return REJECTED
        self._time.observe(timestamp)
        chain, valid_to = with_version(self._chain(key), timestamp, private(value), self._oldest)
        (index,) = self._state.index([key])
        self._state.put(index, (chain, timestamp) if chain else None, timestamp)
        return valid_to

    def delete(self, key: TK, timestamp: int) -> Version[T] | None:
        """Delete the row from this time on. Returns the version that was valid at this time."""
        if timestamp < self._oldest:
            self._expired()
            return None
        before = self.get_as_of(key, timestamp)
        self.put(key, None, timestamp)
        return before

    def get(self, key: TK) -> Version[T] | None:
        """The latest version."""
        return _handed_out(latest(self._chain(key)))

    def get_as_of(self, key: TK, timestamp: int) -> Version[T] | None:
        """The version that was valid at this time; None if there was none."""
        return _handed_out(as_of(self._chain(key), timestamp, self._oldest))

    def range(
        self, key: TK, first: int | None = None, last: int | None = None, *, descending: bool = False
    ) -> list[Version[T]]:
        """The versions that were valid at any time from `first` to `last`; None: no limit."""
        found = [
            version._replace(value=private(version.value))
            for version in between(self._chain(key), first, last, self._oldest)
        ]
        return found[::-1] if descending else found

    @property
    def _oldest(self) -> int:
        return self._time.time - self._state.spec.retention

    def _chain(self, key: Any) -> Chain:
        if key is None:
            raise StoreError(f'store "{self._state.spec.name}" was given a null key; every row needs a key')
        (index,) = self._state.index([key])
        row = self._state.row(index)
        return () if row is None else row[0]


def _handed_out(version: Version | None) -> Version | None:
    return version and version._replace(value=private(version.value))


def after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys that begin with this; None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
