"""Questions to a store: typed keys and values, whichever task of whichever process has the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from streamtopo.engine.plan import Plan
from streamtopo.engine.task import TaskId
from streamtopo.hosting.answers import Answer, Found, NotOwner, QueryError, Restoring, UnknownStore
from streamtopo.hosting.reading import Patient, Reading
from streamtopo.hosting.spans import Place, Rows, Span, segment_bytes
from streamtopo.hosting.waiting import Patience
from streamtopo.partitioning import partition_of
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.extent import Extent
from streamtopo.stores.versions import Version, as_of, latest
from streamtopo.stores.views import Pair, after_prefix
from streamtopo.windows import FOREVER, Windowed

_BY_KEY = (Kind.KEY_VALUE, Kind.TIMESTAMPED, Kind.VERSIONED)
_WINDOWS = (Kind.WINDOW, Kind.TIMESTAMPED_WINDOW)
_INSTEAD = {
    **dict.fromkeys(_BY_KEY, "get(key), range() or all()"),
    **dict.fromkeys(_WINDOWS, "window(key), range() or all()"),
    Kind.SESSION: "session(key), range() or all()",
}


class Source(Protocol):
    """Where rows come from: the tasks of this process, or other processes."""

    def get(self, place: Place, key: bytes) -> bytes | None: ...

    def scan(self, place: Place, span: Span) -> Rows: ...

    def time(self, place: Place) -> int:
        """The store's, as of a moment ago."""
        ...


class Known(NamedTuple):
    """A store and where it lies."""

    spec: StoreSpec
    subtopology: int


def stores_of(plan: Plan) -> dict[str, Known]:
    """Those that can be asked: not what a join waits for, whose keys only the join knows."""
    return {
        spec.name: Known(spec, subtopology.number)
        for subtopology in (*plan.subtopologies, *plan.everywhere)
        for spec in subtopology.stores
        if spec.kind is not Kind.JOIN
    }


def known(plan: Plan, store: str) -> Known:
    stores = stores_of(plan)
    if store not in stores:
        names = ", ".join(sorted(stores)) or "none"
        raise UnknownStore(f'there is no store "{store}"; the topology has {names}')
    return stores[store]


class Query:
    """A store as it was at the last commit; any thread may ask. Of a store with versions the latest are its rows.

    A row that cannot be had now raises `NotOwner` or `Restoring`, when there is no patience left. With `partition` only
    that one is asked, for keys that lie elsewhere than their hash says.
    """

    def __init__(
        self,
        plan: Callable[[], Plan],
        source: Source,
        store: str,
        patience: Patience | None = None,
        partition: int | None = None,
    ) -> None:
        self._plan = plan
        self._source = source
        self._known = known(plan(), store)
        self._patience = patience or Patience()
        self._only = partition
        self._partitions()

    @property
    def spec(self) -> StoreSpec:
        return self._known.spec

    def get(self, key: Any) -> Any:
        return self.find(key).value

    def find(self, key: Any) -> Found:
        """The value with its timestamp."""
        data, place = self._by_key(key, "get")
        return self._patience.until(lambda: self._found(self._source.get(place, data)))

    def ask(self, key: Any) -> Answer:
        """For `match`: what would be raised is returned."""
        try:
            return self.find(key)
        except (NotOwner, Restoring) as answer:
            return answer

    def range(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> Iterator[Pair]:
        """Rows from `start` to `stop`, both included, in the order of the keys' bytes; None is open.

        Windows and sessions: by their time, in milliseconds, which is when a window starts, and when a session ends.
        They come in spans of time, and in each in the order of the keys' bytes.
        """
        return self._pairs(self._span(start, stop, reverse))

    def prefix(self, prefix: bytes | str) -> Iterator[Pair]:
        """Rows whose key's bytes begin with this."""
        self._check(_BY_KEY, "prefix")
        start = prefix.encode() if isinstance(prefix, str) else prefix
        return self._pairs(Span(start, after_prefix(start)))

    def window(self, key: Any, start: int | None = None, stop: int | None = None) -> list[Pair]:
        """A key's windows that start from `start` to `stop`, in milliseconds, both included; the oldest first."""
        self._check(_WINDOWS, "window")
        return self._of_key(key, *_times(start, stop))

    def session(self, key: Any, start: int | None = None, stop: int | None = None) -> list[Pair]:
        """A key's sessions that last at any time from `start` to `stop`, both included; the oldest first."""
        self._check((Kind.SESSION,), "session")
        first, last = _times(start, stop)
        return [pair for pair in self._of_key(key, first, FOREVER) if pair[0].start <= last]

    def versioned(self, key: Any, as_of: int | None = None) -> Version | None:
        """What the key had at a time, in milliseconds, as far as the store's history goes; without one, what it has."""
        self._check((Kind.VERSIONED,), "versioned")
        data, place = self._by_key(key, "versioned")
        time = None if as_of is None else _time(as_of)
        return self._patience.until(lambda: self._version(place, data, time))

    def all(self) -> Iterator[Pair]:
        return self.range()

    def count(self) -> int:
        """Reads all rows to count them."""
        if self.spec.kind is Kind.VERSIONED:
            return sum(1 for _ in self.all())
        return sum(1 for _ in Patient(self._rows(self._span()), self._patience))

    # -- inside

    def _encoded(self, key: Any) -> bytes:
        if key is None:
            raise QueryError(f'store "{self.spec.name}" was asked for a null key; every row has a key')
        (data,) = self.spec.key.encode_column([key])
        assert data is not None
        return data

    def _span(self, start: Any = None, stop: Any = None, reverse: bool = False) -> Span:
        if self.spec.timed:
            return Span(reverse=reverse, extent=Extent(None, None, *_times(start, stop)))
        first = b"" if start is None else self._encoded(start)
        return Span(first, None if stop is None else self._encoded(stop) + b"\0", reverse)

    def _by_key(self, key: Any, asked: str) -> tuple[bytes, Place]:
        self._check(_BY_KEY, asked)
        data = self._encoded(key)
        (inner,) = self.spec.key.inner_keys([data])
        return data, self._place(inner or b"")

    def _check(self, kinds: Iterable[Kind], asked: str) -> None:
        if self.spec.kind not in kinds:
            kind = self.spec.kind
            raise QueryError(
                f'store "{self.spec.name}" is a {kind.value} store and has no {asked}; ask {_INSTEAD[kind]}'
            )

    def _place(self, key: bytes) -> Place:
        spec, number = self._known
        if self._only is not None:
            return Place(spec.name, TaskId(number, self._only), alone=True)
        return Place(spec.name, TaskId(number, partition_of(key, self._count())))

    def _count(self) -> int:
        count = self._plan().part(self._known.subtopology).tasks
        if not count:
            raise NotOwner(self.spec.name, 0)
        return count

    def _partitions(self) -> Iterable[int]:
        count = self._plan().part(self._known.subtopology).tasks
        if self._only is None:
            return range(count)
        if not 0 <= self._only < count:
            raise QueryError(f'store "{self.spec.name}" has the partitions 0 to {count - 1}, not {self._only}')
        return [self._only]

    def _found(self, data: bytes | None) -> Found:
        spec = self.spec
        if data is None:
            return Found(None)
        if spec.kind is Kind.VERSIONED:
            version = latest(spec.value.decode(data))
            return Found(None) if version is None else Found(version.value, version.timestamp)
        if not spec.timestamped:
            return Found(spec.value.decode(data))
        return Found(spec.value.decode(data[8:]), int.from_bytes(data[:8], "big", signed=True))

    def _version(self, place: Place, key: bytes, time: int | None) -> Version | None:
        data = self._source.get(place, key)
        if data is None:
            return None
        chain = self.spec.value.decode(data)
        return latest(chain) if time is None else as_of(chain, time, self._source.time(place) - self.spec.retention)

    def _of_key(self, key: Any, start: int, stop: int) -> list[Pair]:
        inner = self._encoded(None if key is None else Windowed(key, 0, 0))[: -self.spec.key.window_bytes]
        place, span = self._place(inner), Span(extent=Extent(inner, inner, start, stop))
        return self._patience.until(lambda: list(self._decoded(self._source.scan(place, span))))

    def _pairs(self, span: Span) -> Iterator[Pair]:
        return Patient(self._decoded(self._rows(span)), self._patience)

    def _decoded(self, rows: Rows) -> Iterator[Pair]:
        """Can be asked for the next one after a refusal if `rows` can be, which a generator could not."""
        decode, cut, found = self.spec.key.decode, segment_bytes(self.spec), self._found

        def pair(row: tuple[bytes, bytes]) -> Pair:
            return decode(row[0][cut:]), found(row[1]).value

        return filter(lambda pair: pair[1] is not None, map(pair, rows))

    def _rows(self, span: Span) -> Reading:
        """Of all partitions, in one order."""
        spec, number = self._known
        places = [Place(spec.name, TaskId(number, partition)) for partition in self._partitions()]
        return self._patience.until(lambda: Reading(self._source, places, span))


def _times(start: Any, stop: Any) -> tuple[int, int]:
    return 0 if start is None else _time(start), FOREVER if stop is None else _time(stop)


def _time(given: Any) -> int:
    if not isinstance(given, int):
        raise QueryError(f"{given!r:.80} is no time; give milliseconds since 1970, as timestamps are")
    return min(max(given, -1), FOREVER)
