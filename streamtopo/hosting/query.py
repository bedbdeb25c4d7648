"""Questions to a store: typed keys and values, whichever task of whichever process has the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Any, NamedTuple, Protocol, TypeVar

from streamtopo.durations import milliseconds
from streamtopo.engine.plan import Plan
from streamtopo.engine.task import TaskId
from streamtopo.hosting.answers import Answer, Found, NotOwner, QueryError, Restoring, UnknownStore
from streamtopo.hosting.committed import Place, Rows, Span
from streamtopo.partitioning import partition_of
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.views import Pair, after_prefix

Result = TypeVar("Result")

AGAIN = 0.01
"""Seconds between two attempts while a query waits."""


class Source(Protocol):
    """Where rows come from: the tasks of this process, or other processes."""

    def get(self, place: Place, key: bytes) -> bytes | None: ...

    def scan(self, place: Place, span: Span) -> Rows: ...


class Known(NamedTuple):
    """A store and where it lies."""

    spec: StoreSpec
    subtopology: int


def stores_of(plan: Plan) -> dict[str, Known]:
    return {
        spec.name: Known(spec, subtopology.number) for subtopology in plan.subtopologies for spec in subtopology.stores
    }


def known(plan: Plan, store: str) -> Known:
    stores = stores_of(plan)
    if store not in stores:
        names = ", ".join(sorted(stores)) or "none"
        raise UnknownStore(f'there is no store "{store}"; the topology has {names}')
    if stores[store].spec.kind not in (Kind.KEY_VALUE, Kind.TIMESTAMPED):
        raise UnknownStore(f'store "{store}" is a {stores[store].spec.kind.value} store, which cannot be asked by key')
    return stores[store]


class Query:
    """A key-value store as it was at the last commit; any thread may ask.

    A row that cannot be had now raises `NotOwner` or `Restoring`, after `wait`. With `partition` only that one is
    asked, for keys that lie elsewhere than their hash says.
    """

    def __init__(
        self, plan: Callable[[], Plan], source: Source, store: str, wait: str | int = 0, partition: int | None = None
    ) -> None:
        self._plan = plan
        self._source = source
        self._known = known(plan(), store)
        self._wait = milliseconds(wait) / 1000
        self._only = partition
        self._partitions()

    @property
    def spec(self) -> StoreSpec:
        return self._known.spec

    def get(self, key: Any) -> Any:
        return self.find(key).value

    def find(self, key: Any) -> Found:
        """The value with its timestamp."""
        data = self._encoded(key)
        place = self._place(data)
        return self._patient(lambda: self._found(self._source.get(place, data)))

    def ask(self, key: Any) -> Answer:
        """For `match`: what would be raised is returned."""
        try:
            return self.find(key)
        except (NotOwner, Restoring) as answer:
            return answer

    def range(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> Iterator[Pair]:
        """Rows from `start` to `stop`, both included, in the order of the keys' bytes; None is open."""
        return self._pairs(self._span(start, stop, reverse))

    def prefix(self, prefix: bytes | str) -> Iterator[Pair]:
        """Rows whose key's bytes begin with this."""
        start = prefix.encode() if isinstance(prefix, str) else prefix
        return self._pairs(Span(start, after_prefix(start)))

    def all(self) -> Iterator[Pair]:
        return self._pairs(Span())

    def count(self) -> int:
        """Reads all rows to count them."""
        return sum(1 for _ in self._rows(Span()))

    # -- inside

    def _encoded(self, key: Any) -> bytes:
        if key is None:
            raise QueryError(f'store "{self.spec.name}" was asked for a null key; every row has a key')
        (data,) = self.spec.key.encode_column([key])
        assert data is not None
        return data

    def _span(self, start: Any, stop: Any, reverse: bool) -> Span:
        first = b"" if start is None else self._encoded(start)
        return Span(first, None if stop is None else self._encoded(stop) + b"\0", reverse)

    def _place(self, key: bytes) -> Place:
        spec, number = self._known
        only = self._only
        return Place(spec.name, TaskId(number, partition_of(key, self._count()) if only is None else only))

    def _count(self) -> int:
        count = self._plan().tasks[self._known.subtopology]
        if not count:
            raise NotOwner(self.spec.name, 0)
        return count

    def _partitions(self) -> Iterable[int]:
        count = self._plan().tasks[self._known.subtopology]
        if self._only is None:
            return range(count)
        if not 0 <= self._only < count:
            raise QueryError(f'store "{self.spec.name}" has the partitions 0 to {count - 1}, not {self._only}')
        return [self._only]

    def _patient(self, attempt: Callable[[], Result]) -> Result:
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return attempt()
            except (NotOwner, Restoring):
                if time.monotonic() >= deadline:
                    raise
            time.sleep(AGAIN)

    def _found(self, data: bytes | None) -> Found:
        spec = self.spec
        if data is None:
            return Found(None)
        if not spec.timestamped:
            return Found(spec.value.decode(data))
        return Found(spec.value.decode(data[8:]), int.from_bytes(data[:8], "big", signed=True))

    def _pairs(self, span: Span) -> Iterator[Pair]:
        decode = self.spec.key.decode
        return ((decode(key), self._found(data).value) for key, data in self._rows(span))

    def _rows(self, span: Span) -> Rows:
        """Of all partitions, in one order; all are found before the first row is given out."""
        spec, number = self._known
        places = [Place(spec.name, TaskId(number, partition)) for partition in self._partitions()]
        parts = self._patient(lambda: [self._source.scan(place, span) for place in places])
        return merge(*parts, key=lambda row: row[0], reverse=span.reverse)
