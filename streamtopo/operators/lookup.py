"""Tables as a join sees them: at each of its own rows, as they were when that row came."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from streamtopo.records import Chunk, private
from streamtopo.stores import Kind
from streamtopo.stores.state import Row, State
from streamtopo.stores.versions import as_of, latest
from streamtopo.topology import Bindings, OperatorClock

Get = Callable[[Hashable, Any], Row | None]
"""A key as the store's `index` has it, and the key itself -> the row now, for the asker to keep."""


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
    """The rows of a table that has no store: each is made from the rows of others when it is asked for."""

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
    """Where rows come from."""

    @property
    def kept(self) -> tuple[Kept, ...]: ...

    def open(self, kept: dict[Kept, KeptRows]) -> Get: ...


class KeptRows:
    """A store's rows, those put in this round at the row that put them and not before."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.named: dict[Hashable, Hashable] | None = None
        """What this store's index has for that of the asker, where the bytes of their keys differ."""
        self._now: dict[Any, Row | None] = {}
        self._then: dict[Any, Row | None] = {}

    def begin(self, wanted: Iterable[Hashable], put: Iterable[Hashable]) -> None:
        """Rows that will be wanted, and those that were put: these start as they were before the round."""
        self._now = self.state.look(wanted)
        first = self.state.first
        self._then = {key: first[key] for key in put}

    def put(self, key: Hashable, row: Row | None) -> None:
        self._then[key] = row

    def get(self, index: Hashable, key: Any) -> Row | None:
        if self.named is not None:
            index = self.named[index]
        if index in self._then:
            return self.state.copied(self._then[index])
        return self.state.copied(self._now[index])

    def all(self, index: list[Hashable]) -> list[Row | None]:
        """Where nothing was put in this round: a row for each; None for None."""
        if self.state.spec.value.mutable:
            return [self.state.copied(self._now.get(place)) for place in index]
        return list(map(self._now.get, index))


class ToldRows(KeptRows):
    """Rows as the nodes below were told of them: without what the store's cache still holds back."""

    def begin(self, wanted: Iterable[Hashable], put: Iterable[Hashable]) -> None:
        wanted = list(wanted)
        super().begin(wanted, put)
        self._then.update(self.state.held_back(wanted))


class VersionedRows(KeptRows):
    """Rows with their history: those as of a time, or the latest."""

    def __init__(self, state: State, clock: OperatorClock) -> None:
        super().__init__(state)
        self.as_of: int | None = None
        self._clock = clock
        self._time = -1
        """The store's time at the row that looks."""

    def begin(self, wanted: Iterable[Hashable], put: Iterable[Hashable]) -> None:
        put = list(put)
        super().begin(wanted, put)
        self._time = self.state.time_before if put else self._clock.time

    def put(self, key: Hashable, row: Row | None) -> None:
        super().put(key, row)
        if row is not None:
            self._time = row[1]

    def get(self, index: Hashable, key: Any) -> Row | None:
        row = super().get(index, key)
        if row is None:
            return None
        found = (
            latest(row[0]) if self.as_of is None else as_of(row[0], self.as_of, self._time - self.state.spec.retention)
        )
        return found and (private(found.value), found.timestamp)


class Lookup:
    """Finds, for each row of a chunk, the row of a table with the same key as it was at that row.

    The node has `parents` parents, and watches the nodes that keep the table; so the sides of its chunk from `parents`
    on are puts into those.
    """

    def __init__(
        self, table: Table, bindings: Bindings, *, parents: int, as_of: bool = False, told: bool = False
    ) -> None:
        """With `as_of`, of tables with versions those are found that were valid at the time of the row that looks.

        With `told`, tables with a record cache are seen as what they forwarded has made them: so a row that both sides
        of a join delete in one commit is deleted from what was joined.
        """
        self._parents = parents
        self._kept = [_rows(kept, bindings, told=told) for kept in table.kept]
        self._versioned = [kept for kept in self._kept if as_of and isinstance(kept, VersionedRows)]
        single = self._kept[0] if isinstance(table, Kept) else None
        self._plain = single if type(single) is KeptRows else None
        """Of a table that is only looked into, all rows are found at once where none is put in between."""
        self._get = table.open(dict(zip(table.kept, self._kept, strict=True)))
        self._index, self._key = self._kept[0].state.index, self._kept[0].state.spec.key

    def split(self, chunk: Chunk, keys: Callable[[Chunk], list[Any]] | None = None) -> tuple[Chunk, list[Row | None]]:
        """The chunk without the puts, and beside each row the one found for its key (or for what `keys` gives)."""
        sides = chunk.sides or [0] * len(chunk)
        several = max(sides, default=0) >= self._parents
        own = chunk.select([side < self._parents for side in sides]) if several else chunk
        wanted = own.keys if keys is None else keys(own)
        index = self._index(wanted)
        found = set(index) - {None}
        for number, kept in enumerate(self._kept, start=self._parents):
            if kept.state.spec.key != self._key and not self._key.exact:
                kept.named = dict(zip(index, kept.state.index(wanted), strict=True))
            kept.begin(
                found if kept.named is None else map(kept.named.__getitem__, found),
                [key for key, side in zip(chunk.keys, sides, strict=True) if side == number],
            )
        rows = iter(zip(index, wanted, strict=True))
        if not several and self._plain is not None:
            return own, self._plain.all(index)
        get = self._get_as_of(own.timestamps) if self._versioned else self._get
        if not several:
            return own, [None if place is None and not self._versioned else get(place, key) for place, key in rows]
        in_order = self._in_order(chunk, sides, rows)
        return own, [None if place is None and not self._versioned else get(place, key) for place, key in in_order]

    def _get_as_of(self, times: list[int]) -> Get:
        """For rows that are asked about one after the other, at these times."""
        following = iter(times)

        def get(index: Hashable, key: Any) -> Row | None:
            time = next(following)
            for kept in self._versioned:
                kept.as_of = time
            return None if index is None else self._get(index, key)

        return get

    def _in_order(self, chunk: Chunk, sides: list[int], rows: Iterable[tuple[Hashable, Any]]) -> Iterable[Any]:
        """The chunk's own rows; puts are done on the way."""
        rows = iter(rows)
        for side, key, value, time in zip(sides, chunk.keys, chunk.values, chunk.timestamps, strict=True):
            if side < self._parents:
                yield next(rows)
            else:
                self._kept[side - self._parents].put(key, None if value is None else (value, time))


def _rows(kept: Kept, bindings: Bindings, *, told: bool) -> KeptRows:
    state: State = bindings.state(kept.store)
    if state.spec.kind is Kind.VERSIONED:
        return VersionedRows(state, bindings.clock(kept.store))
    return ToldRows(state) if told and state.cached else KeptRows(state)
