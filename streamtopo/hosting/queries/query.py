"""Queries of a store by typed keys and values, in any task of any process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, cast

from streamtopo.engine.plan import Plan
from streamtopo.engine.task.options import TaskId
from streamtopo.hosting.answers import Answer, Found, NotOwner, QueryError, Restoring, UnknownStore
from streamtopo.hosting.queries.merged_rows import MergedRows, RetryingRows
from streamtopo.hosting.queries.scanning import RowIterator, ScanBounds, StorePart, segment_bytes
from streamtopo.hosting.queries.waiting import Retry
from streamtopo.partitioning import partition_of
from streamtopo.records.type_parameters import TK, T
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.extent import Extent, oldest_live
from streamtopo.stores.rows.versions import Version, as_of, latest
from streamtopo.stores.views.key_value import Pair, after_prefix
from streamtopo.windows import FOREVER, Windowed

_BY_KEY = (Kind.KEY_VALUE, Kind.TIMESTAMPED, Kind.VERSIONED)
_WINDOWS = (Kind.WINDOW, Kind.TIMESTAMPED_WINDOW)
_METHODS_BY_KIND = {
    **dict.fromkeys(_BY_KEY, "get(key), range() or all()"),
    **dict.fromkeys(_WINDOWS, "window(key), range() or all()"),
    Kind.SESSION: "session(key), range() or all()",
}

UNNAMED = "-STATE-STORE-"
"""In the names of stores whose operators were given none."""


class RowSource(Protocol):
    """A source of rows: the tasks of this process, or other processes."""

    def get(self, part: StorePart, key: bytes) -> bytes | None: ...

    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator: ...

    def time(self, part: StorePart) -> int:
        """Return the time of the store, as of a moment ago."""
        ...


class StoreLocation(NamedTuple):
    """A store and its subtopology."""

    spec: StoreSpec
    subtopology: int


def queryable_stores(plan: Plan) -> dict[str, StoreLocation]:
    """Return the stores that can be queried: all but the buffers of joins, whose keys only the join can read."""
    return {
        spec.name: StoreLocation(spec, subtopology.number)
        for subtopology in (*plan.subtopologies, *plan.everywhere)
        for spec in subtopology.stores
        if spec.kind is not Kind.JOIN
    }


def find_store(plan: Plan, store: str) -> StoreLocation:
    stores = queryable_stores(plan)
    if store not in stores:
        names = ", ".join(sorted(stores)) or "none"
        hint = '; give yours a name, as in count(name="counts")' if UNNAMED in names else ""
        raise UnknownStore(f'there is no store "{store}"; the topology has {names}{hint}')
    return stores[store]


class Query(Generic[TK, T]):
    """A query of a store as of the last commit, for any thread. Versioned stores give their latest versions.

    Rows that are still not available after `wait` raise `NotOwner` or `Restoring`. `partition` is for keys that are not
    in the partition of their hash.
    """

    def __init__(
        self,
        plan: Callable[[], Plan],
        source: RowSource,
        store: str,
        retry: Retry | None = None,
        partition: int | None = None,
    ) -> None:
        self._plan = plan
        self._source = source
        self._location = find_store(plan(), store)
        self._retry = retry or Retry()
        self._only_partition = partition
        self._queried_partitions()

    def __repr__(self) -> str:
        return f"Query({self.spec.shown})"

    @property
    def spec(self) -> StoreSpec:
        return self._location.spec

    def get(self, key: TK) -> T | None:
        """The committed value of a key, or None. Raises `NotOwner` or `Restoring` if it is not available."""
        return cast("T | None", self.find(key).value)

    def find(self, key: TK) -> Found:
        """Return the value with its timestamp."""
        data, part = self._located(key, "get")
        return self._retry.call(lambda: _decoded_row(self.spec, self._source.get(part, data)))

    def ask(self, key: TK) -> Answer:
        """Like `find`, but return `NotOwner` and `Restoring`, and do not raise them: for `match`."""
        try:
            return self.find(key)
        except (NotOwner, Restoring) as answer:
            return answer

    def range(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> Iterator[tuple[Any, T]]:
        """Return the rows from `start` to `stop`, both inclusive, in the order of the keys' bytes. None: no limit.

        For windows and sessions, both are times in milliseconds: the start of a window, or the end of a session.
        Their rows come by segments of time, and within a segment in the order of the keys' bytes.
        """
        return self._pairs(self._bounds(start, stop, reverse))

    def prefix(self, prefix: bytes | str) -> Iterator[tuple[TK, T]]:
        """Return the rows whose keys' bytes start with this prefix."""
        self._check(_BY_KEY, "prefix")
        start = prefix.encode() if isinstance(prefix, str) else prefix
        return self._pairs(ScanBounds(start, after_prefix(start)))

    def window(self, key: TK, start: int | None = None, stop: int | None = None) -> list[tuple[Windowed[TK], T]]:
        """Return the windows of a key that start from `start` to `stop`, in milliseconds, inclusive; oldest first."""
        self._check(_WINDOWS, "window")
        return self._windows_of(key, *_times(start, stop))

    def session(self, key: TK, start: int | None = None, stop: int | None = None) -> list[tuple[Windowed[TK], T]]:
        """Return the sessions of a key that overlap `start` to `stop`, both inclusive; oldest first."""
        self._check((Kind.SESSION,), "session")
        first, last = _times(start, stop)
        return [pair for pair in self._windows_of(key, first, FOREVER) if pair[0].start <= last]

    def kept_from(self, key: TK) -> int:
        """Return the time, in milliseconds, before which windows that started, or sessions that ended, are removed.

        It is the store's time in the partition of the key, less the retention. 0: none have been removed.
        """
        self._check((*_WINDOWS, Kind.SESSION), "kept_from")
        part = self._part(self._inner_key(key))
        return self._retry.call(lambda: oldest_live(self.spec, self._source.time(part)))

    def versioned(self, key: TK, as_of: int | None = None) -> Version[T] | None:
        """Return the version that was valid at `as_of`, a time in milliseconds; without it, the latest version."""
        self._check((Kind.VERSIONED,), "versioned")
        data, part = self._located(key, "versioned")
        time = None if as_of is None else _time(as_of)
        return self._retry.call(lambda: self._version_at(part, data, time))

    def all(self) -> Iterator[tuple[Any, T]]:
        """All rows: for each partition, in the order of the keys' bytes."""
        return self.range()

    def count(self) -> int:
        """Count the rows, by reading all of them."""
        if self.spec.kind is Kind.VERSIONED:
            return sum(1 for _ in self.all())
        return sum(1 for _ in RetryingRows(self._rows(self._bounds()), self._retry))

    # -- inside

    def _bounds(self, start: Any = None, stop: Any = None, reverse: bool = False) -> ScanBounds:
        if self.spec.timed:
            return ScanBounds(reverse=reverse, extent=Extent(None, None, *_times(start, stop)))
        first = b"" if start is None else _encoded(self.spec, start)
        return ScanBounds(first, None if stop is None else _encoded(self.spec, stop) + b"\0", reverse)

    def _located(self, key: Any, asked: str) -> tuple[bytes, StorePart]:
        self._check(_BY_KEY, asked)
        data = _encoded(self.spec, key)
        (inner,) = self.spec.key.inner_keys([data])
        return data, self._part(inner or b"")

    def _check(self, kinds: Iterable[Kind], asked: str) -> None:
        if self.spec.kind not in kinds:
            kind = self.spec.kind
            raise QueryError(
                f'store "{self.spec.name}" is a {kind.value} store and has no {asked}; use {_METHODS_BY_KIND[kind]}'
            )

    def _part(self, key: bytes) -> StorePart:
        spec, number = self._location
        if self._only_partition is not None:
            return StorePart(spec.name, TaskId(number, self._only_partition), only_here=True)
        return StorePart(spec.name, TaskId(number, partition_of(key, self._partition_count())))

    def _partition_count(self) -> int:
        count = self._plan().part(self._location.subtopology).tasks
        if not count:
            raise NotOwner(self.spec.name, 0)
        return count

    def _queried_partitions(self) -> Iterable[int]:
        count = self._plan().part(self._location.subtopology).tasks
        if self._only_partition is None:
            return range(count)
        if not 0 <= self._only_partition < count:
            raise QueryError(
                f'store "{self.spec.name}" has the partitions 0 to {count - 1}, not {self._only_partition}'
            )
        return [self._only_partition]

    def _version_at(self, part: StorePart, key: bytes, time: int | None) -> Version | None:
        data = self._source.get(part, key)
        if data is None:
            return None
        chain = self.spec.value.decode(data)
        return latest(chain) if time is None else as_of(chain, time, self._source.time(part) - self.spec.retention)

    def _inner_key(self, key: Any) -> bytes:
        """The bytes of a key without its window."""
        return _encoded(self.spec, None if key is None else Windowed(key, 0, 0))[: -self.spec.key.window_bytes]

    def _windows_of(self, key: Any, start: int, stop: int) -> list[Pair]:
        inner = self._inner_key(key)
        part, bounds = self._part(inner), ScanBounds(extent=Extent(inner, inner, start, stop))
        return self._retry.call(lambda: list(self._decoded_pairs(self._source.scan(part, bounds))))

    def _pairs(self, bounds: ScanBounds) -> Iterator[Pair]:
        return RetryingRows(self._decoded_pairs(self._rows(bounds)), self._retry)

    def _decoded_pairs(self, rows: RowIterator) -> Iterator[Pair]:
        """Not a generator: after a refusal, a generator would have ended, and this continues if `rows` does."""
        spec = self.spec
        decode, prefix_length = spec.key.decode, segment_bytes(spec)

        def pair(row: tuple[bytes, bytes]) -> Pair:
            return decode(row[0][prefix_length:]), _decoded_row(spec, row[1]).value

        return filter(lambda pair: pair[1] is not None, map(pair, rows))

    def _rows(self, bounds: ScanBounds) -> MergedRows:
        """Return the rows of all queried partitions in one order."""
        spec, number = self._location
        parts = [StorePart(spec.name, TaskId(number, partition)) for partition in self._queried_partitions()]
        return self._retry.call(lambda: MergedRows(self._source, parts, bounds))


def _encoded(spec: StoreSpec, key: Any) -> bytes:
    if key is None:
        raise QueryError(f'store "{spec.name}" has no row with a null key; give a key')
    (data,) = spec.key.encode_column([key])
    assert data is not None
    return data


def _decoded_row(spec: StoreSpec, data: bytes | None) -> Found:
    if data is None:
        return Found(None)
    if spec.kind is Kind.VERSIONED:
        version = latest(spec.value.decode(data))
        return Found(None) if version is None else Found(version.value, version.timestamp)
    if not spec.timestamped:
        return Found(spec.value.decode(data))
    return Found(spec.value.decode(data[8:]), int.from_bytes(data[:8], "big", signed=True))


def _times(start: Any, stop: Any) -> tuple[int, int]:
    return 0 if start is None else _time(start), FOREVER if stop is None else _time(stop)


def _time(given: Any) -> int:
    if not isinstance(given, int):
        raise QueryError(f"{given!r:.80} is not a time; give milliseconds since 1970")
    return min(max(given, -1), FOREVER)
