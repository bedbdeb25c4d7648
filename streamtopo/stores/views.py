"""A store as processors and tests see it: the methods of Kafka Streams' key-value store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from streamtopo.errors import StoreError
from streamtopo.records import private
from streamtopo.stores.state import Row, State
from streamtopo.stores.versions import REJECTED, Chain, Version, as_of, between, latest, with_version

Pair = tuple[Any, Any]


class ValueAndTimestamp(NamedTuple):
    value: Any
    timestamp: int


class KeyValueStore:
    """Keys in the order of their bytes; what is handed out can be changed freely without changing the store."""

    def __init__(self, state: State, now: Callable[[], int]) -> None:
        self._state = state
        self._now = now
        serde = state.spec.key
        self._index: Callable[[Any], Any] = _as_it_is if serde.exact else serde.encode

    def get(self, key: Any) -> Any:
        row = self._row(key)
        return row and private(row[0])

    def get_with_timestamp(self, key: Any) -> ValueAndTimestamp | None:
        row = self._row(key)
        return row and ValueAndTimestamp(private(row[0]), row[1])

    def put(self, key: Any, value: Any, timestamp: int | None = None) -> None:
        """None deletes. The timestamp is that of the record being processed unless it is given."""
        time = self._now() if timestamp is None else timestamp
        self._check(key)
        kept = self._index(key)
        self._state.row(kept)
        self._state.put(kept, None if value is None else (private(value), time), time)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """The value that is there; None if there was none and this one was put."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def put_all(self, pairs: Iterable[Pair]) -> None:
        for key, value in pairs:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        before = self.get(key)
        self.put(key, None)
        return before

    def range(self, start: Any = None, stop: Any = None) -> Iterator[Pair]:
        """Rows from `start` to `stop`, both included; None is open."""
        return self._scan(start, stop, reverse=False)

    def reverse_range(self, start: Any = None, stop: Any = None) -> Iterator[Pair]:
        return self._scan(start, stop, reverse=True)

    def all(self) -> Iterator[Pair]:
        return self._scan(None, None, reverse=False)

    def reverse_all(self) -> Iterator[Pair]:
        return self._scan(None, None, reverse=True)

    def prefix_scan(self, prefix: bytes | str) -> Iterator[Pair]:
        """Rows whose key's bytes begin with this."""
        start = prefix.encode() if isinstance(prefix, str) else prefix
        return self._pairs(self._state.scan(start, after_prefix(start)))

    def approximate_num_entries(self) -> int:
        return sum(1 for _ in self._state.scan(b"", None))

    def _check(self, key: Any) -> None:
        if key is None:
            raise StoreError(f'store "{self._state.spec.name}" was given a null key; every row needs a key')

    def _row(self, key: Any) -> Row | None:
        self._check(key)
        return self._state.row(self._index(key))

    def _scan(self, start: Any, stop: Any, *, reverse: bool) -> Iterator[Pair]:
        encode = self._state.spec.key.encode
        first = b"" if start is None else encode(start)
        past = None if stop is None else encode(stop) + b"\0"
        return self._pairs(self._state.scan(first, past, reverse=reverse))

    def _pairs(self, rows: Iterator[tuple[bytes, Row]]) -> Iterator[Pair]:
        decode = self._state.spec.key.decode
        return ((decode(key), private(row[0])) for key, row in rows)


class ReadOnlyStore(KeyValueStore):
    """A global store, which only the processor that keeps it may change."""

    def put(self, key: Any, value: Any, timestamp: int | None = None) -> None:
        raise StoreError(
            f'global store "{self._state.spec.name}" can only be read here; write to the topic it is read from'
        )


class StoreTime(Protocol):
    time: int
    """The latest that was put."""

    def observe(self, time: int) -> int:
        """This time is put; returns the latest."""
        ...


class VersionedStore:
    """Rows with their history, as far back as it is kept."""

    def __init__(self, state: State, time: StoreTime, expired: Callable[[], None]) -> None:
        """`expired` counts a version that is older than the history."""
        self._state = state
        self._time = time
        self._expired = expired

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """None: no row from then on. Returns when the next version begins, LATEST (-1), or REJECTED as too old."""
        if timestamp < self._oldest:
            self._expired()
            return REJECTED
        self._time.observe(timestamp)
        chain, valid_to = with_version(self._chain(key), timestamp, private(value), self._oldest)
        (index,) = self._state.index([key])
        self._state.put(index, (chain, timestamp) if chain else None, timestamp)
        return valid_to

    def delete(self, key: Any, timestamp: int) -> Version | None:
        """No row from then on; returns the version that was valid then."""
        if timestamp < self._oldest:
            self._expired()
            return None
        before = self.get_as_of(key, timestamp)
        self.put(key, None, timestamp)
        return before

    def get(self, key: Any) -> Version | None:
        """The latest version."""
        return _handed_out(latest(self._chain(key)))

    def get_as_of(self, key: Any, timestamp: int) -> Version | None:
        return _handed_out(as_of(self._chain(key), timestamp, self._oldest))

    def range(
        self, key: Any, first: int | None = None, last: int | None = None, *, descending: bool = False
    ) -> list[Version]:
        """The versions that were valid at any time from first to last; None is open."""
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


def _as_it_is(key: Any) -> Any:
    return key


def after_prefix(prefix: bytes) -> bytes | None:
    """The first key that is past all keys beginning with this; None where there is no such key."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
