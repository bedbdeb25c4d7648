"""Looks up rows of tables for a join: for each of its own rows, the table as it was when that row arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from streamtopo.records import Chunk, PlacedPuts, private
from streamtopo.stores import Kind
from streamtopo.stores.rows.layout import time_in
from streamtopo.stores.rows.state import Row, State
from streamtopo.stores.rows.versions import as_of, latest
from streamtopo.topology.clocks import OperatorClock
from streamtopo.topology.operator import Bindings

Wanted = tuple[Hashable, Any]
"""A key as the store's `index` has it, and the key itself."""
Get = Callable[[Hashable, Any], Row | None]
"""(key as the store's `index` has it, the key itself) -> the row now; the caller may keep it."""


@dataclass(frozen=True)
class Kept:
    """The rows of a table that has a store."""

    node: str
    store: str

    @property
    def kept(self) -> tuple[Kept, ...]:
        return (self,)

    def open(self, kept: dict[Kept, KeptRows]) -> Get:
        return kept[self].get


@dataclass(frozen=True)
class Derived:
    """The rows of a table that has no store: each is made from rows of other tables when it is looked up."""

    tables: tuple[Table, ...]
    derive: Callable[..., Row | None]
    """(key, the row of each table) -> the row."""

    @property
    def kept(self) -> tuple[Kept, ...]:
        return tuple(dict.fromkeys(kept for table in self.tables for kept in table.kept))

    def open(self, kept: dict[Kept, KeptRows]) -> Get:
        derive, gets = self.derive, [table.open(kept) for table in self.tables]
        if len(gets) == 1:
            (only,) = gets
            return lambda index, key: derive(key, only(index, key))
        return lambda index, key: derive(key, *[get(index, key) for get in gets])


class Table(Protocol):
    """A source of rows."""

    @property
    def kept(self) -> tuple[Kept, ...]: ...

    def open(self, kept: dict[Kept, KeptRows]) -> Get: ...


class KeptRows:
    """The rows of a store. A row that is put in this round is found from its place in the round on."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.named: dict[Hashable, Hashable] | None = None
        """The index of this store by that of the caller, if the bytes of their keys differ."""
        self._now: dict[Any, Row | None] = {}
        self._then: dict[Any, Row | None] = {}

    def begin(self, wanted: Iterable[Hashable], puts: PlacedPuts | None) -> None:
        """Load the wanted rows. Rows that were put in this round start as they were before it."""
        self._now = self.state.look(wanted)
        self._then = {} if puts is None else {key: puts.before[key] for key in puts.index}

    def put(self, key: Hashable, row: Row | None) -> None:
        self._then[key] = row

    def get(self, index: Hashable, key: Any) -> Row | None:
        if self.named is not None:
            index = self.named[index]
        if index in self._then:
            return self.state.copied(self._then[index])
        return self.state.copied(self._now[index])

    def all(self, index: list[Hashable]) -> list[Row | None]:
        """All rows at once, if nothing was put in this round; None for None."""
        if self.state.spec.value.mutable:
            return [self.state.copied(self._now.get(place)) for place in index]
        return list(map(self._now.get, index))


class ForwardedRows(KeptRows):
    """Rows as they were forwarded last: without the changes that the cache of the store still holds back."""

    def begin(self, wanted: Iterable[Hashable], puts: PlacedPuts | None) -> None:
        wanted = list(wanted)
        super().begin(wanted, puts)
        self._then.update(self.state.forwarding.held_back(wanted, self.state.changes.last))


class WindowRows(KeptRows):
    """Rows of windows until they expire: from then on they are not found, whether they are still stored or not."""

    def __init__(self, state: State, clock: OperatorClock) -> None:
        """The clock has the latest time in the keys of the store, with those that were put in this round."""
        super().__init__(state)
        self._clock = clock
        self._newest = clock.time
        """The same at the row that looks up others."""
        self._retention = state.spec.retention
        self._time_in = itemgetter(2 if state.spec.kind is Kind.SESSION else 1)
        self._time_in_index = self._time_in if state.spec.key.exact else partial(time_in, state.spec)

    def begin(self, wanted: Iterable[Hashable], puts: PlacedPuts | None) -> None:
        super().begin(wanted, puts)
        if not self.state.forwarding.watched:  # one record at a time
            self._newest = self._clock.time

    def put(self, key: Any, row: Row | None) -> None:
        super().put(key, row)
        time = self._time_in_index(key)
        if self._newest < time <= self._clock.time:
            self._newest = time

    def get(self, index: Hashable, key: Any) -> Row | None:
        return None if self._time_in(key) <= self._newest - self._retention else super().get(index, key)


class ForwardedWindowRows(WindowRows, ForwardedRows):
    """Rows that had not expired when the table last forwarded its rows, at the last commit."""

    def __init__(self, state: State, clock: OperatorClock, committed_time: Callable[[], int]) -> None:
        super().__init__(state, clock)
        self._committed_time = committed_time

    def begin(self, wanted: Iterable[Hashable], puts: PlacedPuts | None) -> None:
        super().begin(wanted, puts)
        self._newest = self._committed_time()

    def put(self, key: Hashable, row: Row | None) -> None:
        KeptRows.put(self, key, row)


class VersionedRows(KeptRows):
    """Rows with their history: those as of a time, or the latest."""

    def __init__(self, state: State, clock: OperatorClock) -> None:
        super().__init__(state)
        self.as_of: int | None = None
        self.whole = False
        """Whether versions are found that are older than the history, but have not been removed."""
        self._clock = clock
        self._time = -1
        """The time of the store at the row that looks up others."""

    def begin(self, wanted: Iterable[Hashable], puts: PlacedPuts | None) -> None:
        super().begin(wanted, puts)
        self._time = self.state.forwarding.time_before if puts and puts.index else self._clock.time

    def put(self, key: Hashable, row: Row | None) -> None:
        super().put(key, row)
        if row is not None:
            self._time = row[1]

    def get(self, index: Hashable, key: Any) -> Row | None:
        row = super().get(index, key)
        if row is None:
            return None
        oldest = -1 if self.whole else self._time - self.state.spec.retention
        found = latest(row[0]) if self.as_of is None else as_of(row[0], self.as_of, oldest)
        return found and (private(found.value), found.timestamp)


class Lookup:
    """Finds for each row of a chunk the row of a table with the same key, as it was when that row came.

    The node of the step must watch the nodes that keep the table.
    """

    def __init__(self, table: Table, bindings: Bindings, *, as_of: bool = False, as_forwarded: bool = False) -> None:
        """With `as_of`, versioned tables return the version that was valid at the time of the row that looks it up.

        With `as_forwarded`, tables with a record cache return the rows that they forwarded last: so a row that both
        sides of a join delete in one commit is deleted from the result.
        """
        self._kept = [_rows(kept, bindings, as_forwarded=as_forwarded) for kept in table.kept]
        self._versioned = [kept for kept in self._kept if as_of and isinstance(kept, VersionedRows)]
        single = self._kept[0] if isinstance(table, Kept) else None
        self._plain = single if type(single) is KeptRows else None
        """The rows of a plain table: all are found at once, if none is put in between."""
        self._get = table.open(dict(zip(table.kept, self._kept, strict=True)))
        self._index, self._key = self._kept[0].state.index, self._kept[0].state.spec.key

    def find(self, chunk: Chunk, puts: Sequence[PlacedPuts] = (), keys: list[Any] | None = None) -> list[Row | None]:
        """For each row of the chunk the row of the table with its key, or with the key in `keys`."""
        wanted = chunk.keys if keys is None else keys
        index = self._index(wanted)
        self._begin(index, wanted, puts)
        if self._plain is not None and not puts:
            return self._plain.all(index)
        rows = zip(index, wanted, strict=True)
        in_order = self._between_puts(rows, puts) if puts else rows
        if self._versioned:
            get = self._get_as_of(chunk.timestamps)
            return [get(place, key) for place, key in in_order]
        return [None if place is None else self._get(place, key) for place, key in in_order]

    @contextmanager
    def whole_history(self) -> Iterator[None]:
        """Stream time has jumped: what was in the history before is found."""
        for kept in self._versioned:
            kept.whole = True
        try:
            yield
        finally:
            for kept in self._versioned:
                kept.whole = False

    def _begin(self, index: list[Hashable], wanted: list[Any], puts: Sequence[PlacedPuts]) -> None:
        found = set(index) - {None}
        for number, kept in enumerate(self._kept):
            if kept.state.spec.key != self._key and not self._key.exact:
                kept.named = dict(zip(index, kept.state.index(wanted), strict=True))
            kept.begin(
                found if kept.named is None else map(kept.named.__getitem__, found), puts[number] if puts else None
            )

    def _get_as_of(self, times: list[int]) -> Get:
        """A function that looks up rows one after the other, at these times."""
        following = iter(times)

        def get(index: Hashable, key: Any) -> Row | None:
            time = next(following)
            for kept in self._versioned:
                kept.as_of = time
            return None if index is None else self._get(index, key)

        return get

    def _between_puts(self, rows: Iterable[Wanted], puts: Sequence[PlacedPuts]) -> Iterator[Wanted]:
        """The rows. On the way puts take effect, each before the row at its place."""
        waiting = deque(sorted(chain.from_iterable(map(_in_turn, self._kept, puts)), key=itemgetter(0)))
        for place, row in enumerate(rows):
            while waiting and waiting[0][0] <= place:
                _, kept, index, put = waiting.popleft()
                kept.put(index, put)
            yield row
        for _, kept, index, put in waiting:
            kept.put(index, put)


def _in_turn(kept: KeptRows, puts: PlacedPuts) -> Iterator[tuple[int, KeptRows, Hashable, Row | None]]:
    for place, index, value, time in zip(puts.places, puts.index, puts.values, puts.timestamps, strict=True):
        yield place, kept, index, None if value is None else (value, time)


def _rows(kept: Kept, bindings: Bindings, *, as_forwarded: bool) -> KeptRows:
    state = bindings.state(kept.store)
    as_forwarded = as_forwarded and state.cached
    if state.spec.kind is Kind.VERSIONED:
        return VersionedRows(state, bindings.clock(kept.store))
    if state.spec.timed and state.spec.retention:
        newest = f"{kept.store}/newest"
        if as_forwarded:
            return ForwardedWindowRows(state, bindings.clock(newest), partial(bindings.committed_time, newest))
        return WindowRows(state, bindings.clock(newest))
    return ForwardedRows(state) if as_forwarded else KeptRows(state)
