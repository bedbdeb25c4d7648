"""One store as operators see it: typed rows, with this commit's changes in front of the committed bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Protocol

from streamtopo.records import NOTHING, Chunk, Columns, Headers, has_null, private, private_column
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.coding import Coding
from streamtopo.stores.coding import Row as Row
from streamtopo.stores.layout import prefix_of, segment_start, stored_rows, timed_prefix_of
from streamtopo.stores.newer import Newer
from streamtopo.stores.ranges import Ranges

Listed = tuple[list[Any], list[Any], list[int], list[Headers] | None]
"""Changed keys, and the value, time and headers that each has."""

_ROW_OVERHEAD = 250
"""Bytes that a row costs as Python objects, beside its key and value."""


class Beside(Protocol):
    """Kept, and forgotten, as rows are."""

    @property
    def kept_bytes(self) -> int: ...

    def forget_older(self) -> None: ...


class State(Ranges):
    """Rows are kept by key, or by the key's bytes where equal keys may differ as bytes: `index` says which.

    With the record cache on, a key changed a thousand times in a commit is written, logged and forwarded once.
    Values handed out or forwarded are never the objects kept here, unless nobody could change them.
    """

    def __init__(self, spec: StoreSpec, store: Store, *, cached: bool = False) -> None:
        self.spec = spec
        self.cached = cached
        self.prefix = prefix_of(spec.name)
        self._past = timed_prefix_of(spec.name)
        self.snapshot: Callable[[Any], Any] = private if spec.value.mutable else _as_it_is
        self.watched = False
        """Other nodes read these rows as they were at each row of their own, and are told of each that is put."""
        self.sends_old = False
        """What is forwarded carries the old values."""
        self.time_before = -1
        """Of a store with versions: its time before the rows last put."""
        self.beside: Beside | None = None
        """What an operator keeps at hand of these rows in a form of its own."""
        self.forgets = False
        """Rows are not kept once they are durable: whoever puts them keeps those that it will want again."""
        self._store = store
        self._coding = Coding(spec)
        self.index = self._coding.index
        self._row_bytes = _ROW_OVERHEAD
        self.rollback()

    def rollback(self) -> None:
        """Back to what is committed. Kept rows go too: a step that raised may have changed one in place."""
        self._rows: dict[Any, Row | None] = {}
        self._older: dict[Any, Row | None] = {}
        self._newer = Newer(self.spec, self._store, self._coding) if self.spec.timed and self.spec.segment else None
        self._before: dict[Any, tuple[Row | None, int | None]] | None = None
        self.first: dict[Any, Row | None] = {}
        """If watched, or old values are sent with each change: the rows last loaded, as they were then."""
        self._puts = NOTHING
        self._expired = segment_start(0)
        """Where the first rows are that may still have to be deleted for their age."""
        self._dropped = self._expired
        """The first segment that may have rows in the store."""
        self.commits = 0
        self._begin()

    def _begin(self) -> None:
        self.forward_each = not self.cached
        self.changes = 0
        """How many there were in this commit: each has a number, a time, and headers if any has."""
        self._dirty: dict[Any, int] = {}
        """The number of each changed key's last change."""
        self._times: list[int] = []
        self._headers: dict[int, Headers] = {}
        self._live: bytes | None = None
        self._gone: list[Columns] = []
        """Rows deleted for their age, as the changelog is to have them."""
        self._appended: list[Columns] = []
        """Rows that nobody looked for since they were appended."""
        self.commits += 1
        self._sorted: list[bytes] | None = None
        self._timed: list[bytes] | None = None
        self._born: set[Any] = set()
        """Keys that had no row before this commit: if they have none after it, nobody need know of them."""
        self._log: list[Columns] = []
        self._flushed: dict[Any, Row | None] = {}
        """Rows as they last went out of the cache, as far as they were at hand when they were loaded."""
        self._holds_back = self.cached
        """Changes wait in the cache, which has not been flushed in this commit."""
        self._listed: tuple[int, Listed] | None = None
        """The last changes, as asked for when there were so many: a commit flushes them, then takes them."""

    # -- rows

    def load(self, index: Iterable[Hashable]) -> dict[Any, Row | None]:
        """All kept rows, these among them (None where there is none); put new ones in, then say `changed`."""
        missing = set(index).difference(self._rows)
        if missing:
            self._fetch(missing)
        if self._before is not None:
            for key in index:
                self._before.setdefault(key, (private(self._rows[key]), self._dirty.get(key)))
        if self.watched or (self.sends_old and self.forward_each):
            self.first = {key: self.copied(self._rows[key]) for key in index}
        if self.sends_old and not self.forward_each:
            unchanged = set(index).difference(self._dirty, self._flushed)
            self._flushed.update((key, self.copied(self._rows[key])) for key in unchanged)
        return self._rows

    def absent(self, index: Collection[Hashable]) -> None:
        """What `load` does, for keys whose rows are at hand or known to be nowhere."""
        rows = self._rows
        born = [key for key in index if key not in rows]
        rows.update(dict.fromkeys(born))
        self._born.update(born)
        if self._before is not None:
            for key in index:
                self._before.setdefault(key, (private(rows[key]), self._dirty.get(key)))
        if self.watched or self.sends_old:
            for key in index:
                self._flushed.setdefault(key, self.first.setdefault(key, self.copied(rows[key])))

    def load_also(self, key: Any) -> Row | None:
        """One more row, beside those that were loaded last."""
        first = self.first
        row = self.load((key,))[key]
        if first is not self.first:
            first.setdefault(key, self.first[key])
            self.first = first
        return row

    def look(self, index: Iterable[Hashable]) -> dict[Any, Row | None]:
        """All kept rows, these among them, only to be read."""
        missing = set(index).difference(self._rows)
        if missing:
            self._fetch(missing)
        return self._rows

    def copied(self, row: Row | None) -> Row | None:
        """To hand out: nobody can change the kept row through it."""
        return (private(row[0]), row[1]) if row is not None and self.spec.value.mutable else row

    def row(self, key: Any) -> Row | None:
        """One row: what `load` does for many."""
        rows = self._rows
        if self._before is None and key in rows:
            return rows[key]
        return self.load((key,))[key]

    def put(self, key: Any, row: Row | None, time: int) -> None:
        """One change: what `changed` does for many, without forwarding."""
        if self._log_each:
            value = None if row is None else row[0]
            self._log.append(self._coding.changelog([key], [value], [time], None))
        self._sort_in((key,))
        self._rows[key] = row
        self._dirty[key] = self.changes
        self.changes += 1
        self._times.append(time)

    def last_changes(self, index: Sequence[Hashable]) -> dict[Hashable, int]:
        """If these are the next changes: the number that the last of each key will have."""
        return dict(zip(index, range(self.changes, self.changes + len(index)), strict=True))

    def add(self, rows: dict[Any, Row]) -> None:
        """Rows under keys that never had any, so that nothing is there to be looked up."""
        first, self.changes = self.changes, self.changes + len(rows)
        if self._before is not None:
            self._before.update(dict.fromkeys(rows, (None, None)))
        self._sort_in(rows)
        self._rows.update(rows)
        self._dirty.update(zip(rows, range(first, self.changes), strict=True))
        self._times.extend([time for _, time in rows.values()])

    def append(self, keys: list[bytes], values: list[bytes], times: list[int]) -> None:
        """Rows under keys that never had any, encoded; they go to the store as they are unless somebody looks first."""
        if keys:
            self._appended.append(Columns([*keys], [*values], times))

    def changed(self, index: Sequence[Hashable], chunk: Chunk, last: dict[Hashable, int] | None = None) -> Chunk:
        """Rows were put, in this order, with the chunk's values (None deleted); returns what to forward now.

        `last` is what `last_changes` said, where it was asked.
        """
        last = self.last_changes(index) if last is None else last
        first, self.changes = self.changes, self.changes + len(index)
        self._sort_in(last)
        self._dirty.update(last)
        self._times.extend(chunk.timestamps)
        if chunk.headers is not None:
            self._headers.update(zip(range(first, self.changes), chunk.headers, strict=True))
        if self.watched:
            self._puts = Chunk(list(index), chunk.values, chunk.timestamps, order=chunk.order)
        if not self.forward_each:
            return NOTHING
        if self._log_each:
            self._log.append(self._coding.changelog(index, chunk.values, chunk.timestamps, chunk.headers))
        return chunk.with_old(self._old_values(index, chunk.values)) if self.sends_old else chunk

    def take_puts(self) -> Chunk:
        """The rows put since this was last asked; their keys are those of `index`."""
        puts, self._puts = self._puts, NOTHING
        return puts

    @property
    def each_update(self) -> bool:
        """Whether anybody sees more than the last update of a key in a commit."""
        return self.forward_each or self.watched

    def flush(self) -> Chunk:
        """The changes that the cache held back, in the order of the keys' last changes.

        Of a row that was made and deleted since the last flush nobody hears.
        """
        if self.forward_each:
            return NOTHING
        self._holds_back = False
        keys, values, times, headers = self._last_changes()
        if not self.sends_old and not self.watched and not has_null(values):
            return self._chunk(keys, values, times, headers)
        wanted = (
            keys
            if self.sends_old or self.watched
            else [key for key, value in zip(keys, values, strict=True) if value is None]
        )
        self.first = before = self._as_told(wanted)
        chunk = self._chunk(keys, values, times, headers)
        if self.sends_old:
            chunk = chunk.with_old([row and row[0] for row in map(before.__getitem__, keys)])
        told = [value is not None or before[key] is not None for key, value in zip(keys, values, strict=True)]
        return chunk if all(told) else chunk.select(told)

    def _chunk(self, keys: list[Any], values: list[Any], times: list[int], headers: list[Headers] | None) -> Chunk:
        keys = keys if self.spec.key.exact else self.spec.key.decode_column(keys)
        return Chunk(keys, private_column(values) if self.spec.value.mutable else values, times, headers)

    @property
    def holds_back(self) -> bool:
        return self._holds_back and not self.forward_each

    def held_back(self, index: Iterable[Hashable]) -> dict[Any, Row | None]:
        """Of these rows those that changed and wait in the cache, as they were last forwarded."""
        return self._as_told([key for key in index if key in self._dirty]) if self.holds_back else {}

    def _as_told(self, keys: list[Any]) -> dict[Any, Row | None]:
        return self._flushed | self._committed([key for key in keys if key not in self._flushed])

    # -- commit

    def take_changes(self) -> tuple[dict[bytes, bytes | None], list[Columns]]:
        """What to write into the store, and the records of its changelog."""
        keys, values, times, headers = self._last_changes()
        columns = [self._coding.changelog(keys, values, times, headers), *self._appended]
        stored: dict[bytes, bytes | None] = {}
        for some in columns:
            stored.update(stored_rows(self.spec, some))
        if count := sum(len(some.keys) for some in columns):
            size = sum(map(len, stored)) + sum(len(data) for data in stored.values() if data is not None)
            self._row_bytes = _ROW_OVERHEAD + size // count
        if not self.spec.logged:
            return stored, []
        return stored, [*(self._log if self._log_each else columns), *self._gone]

    def committed(self) -> None:
        """The changes taken are durable."""
        self._begin()
        if self.forgets:
            self._rows, self._older = {}, {}

    @property
    def row_bytes(self) -> int:
        """About how many bytes a row takes."""
        return self._row_bytes

    @property
    def changed_bytes(self) -> int:
        """About how many bytes the rows take that changed since the last commit."""
        return (len(self._dirty) + sum(len(some.keys) for some in self._appended)) * self._row_bytes

    @property
    def kept_bytes(self) -> int:
        """About how many bytes all rows take that are kept at hand."""
        beside = 0 if self.beside is None else self.beside.kept_bytes
        return (len(self._rows) + len(self._older)) * self._row_bytes + beside

    def forget_older(self) -> None:
        """Right after a commit: forget the rows that were not used since this was last said."""
        self._rows, self._older = {}, self._rows
        if self._newer is not None:
            self._newer.forget_older(self._older)
        if self.beside is not None:
            self.beside.forget_older()

    # -- one record at a time, while a failing one is looked for

    def mark(self) -> None:
        """From here on remember what changes, for `undo`."""
        self._settle()
        self._before = {}
        self._marked = self.changes, len(self._log)

    def unmark(self) -> None:
        self._before = None

    def undo(self) -> None:
        """Back to the mark."""
        for key, (row, change) in (self._before or {}).items():
            self._rows[key] = row
            if change is not None:
                self._dirty[key] = change
            else:
                self._dirty.pop(key, None)
        self._appended.clear()
        self.changes, logged = self._marked
        self._listed = None
        del self._times[self.changes :], self._log[logged:]
        self._headers = {number: headers for number, headers in self._headers.items() if number < self.changes}
        self._sorted = self._timed = None

    def check(self) -> None:
        """Encode what changed since the mark, so that a wrong type is found while its record is at hand."""
        if self._before is None:
            return
        changed = [key for key in self._before if key in self._dirty]
        rows = [self._rows[key] for key in changed]
        self._coding.changelog(changed, [row and row[0] for row in rows], [], None)

    # -- inside

    @property
    def _log_each(self) -> bool:
        """Whether the changelog gets every update, or, as it does for stores that no cache is meant for, the last."""
        return self.forward_each and self.spec.cached and self.spec.logged

    def _old_values(self, index: Sequence[Hashable], values: list[Any]) -> list[Any]:
        """Of updates just put: each key's value before."""
        before = {key: row and row[0] for key, row in self.first.items()}
        old = []
        for key, value in zip(index, values, strict=True):
            old.append(self.snapshot(before[key]))
            before[key] = value
        return old

    def _last_changes(self) -> Listed:
        """The changed keys in the order of their last changes, with the value, time and headers each then had."""
        if self._listed is None or self._listed[0] != self.changes:
            self._listed = self.changes, self._list_changes()
        return self._listed[1]

    def _list_changes(self) -> Listed:
        number = self._dirty.__getitem__
        keys = sorted(self._dirty, key=number)
        if self._born:
            keys = [key for key in keys if self._rows[key] is not None or key not in self._born]
        rows = list(map(self._rows.__getitem__, keys))
        return (
            keys,
            [row and row[0] for row in rows],
            [self._times[number(key)] if row is None else row[1] for row, key in zip(rows, keys, strict=True)],
            [self._headers.get(number(key), ()) for key in keys] if self._headers else None,
        )

    def _settle(self) -> None:
        """Rows appended become rows like others."""
        appended, self._appended = self._appended, []
        for keys, values, times, _ in appended:
            rows = zip(self._coding.index_of(keys), self.spec.value.decode_column(values), times, strict=True)
            self.add({key: (value, time) for key, value, time in rows})

    def _fetch(self, missing: set[Hashable]) -> None:
        if self._appended:
            self._settle()
            missing.difference_update(self._rows)
        older = self._older
        if older:
            self._rows.update((key, older[key]) for key in missing if key in older)
            missing.difference_update(self._rows)
        asked: Collection[Hashable] = missing if self._newer is None else self._newer.others(missing)
        found = self._committed([*asked])  # may raise: then nobody knows whether there are rows
        self._rows.update(found if self._newer is None else dict.fromkeys(missing) | found)

    def _committed(self, keys: list[Any]) -> dict[Any, Row | None]:
        """Rows as the store has them: what it was when the cache was last flushed."""
        found = self._store.get_many([self.prefix + key for key in self._coding.places(keys)]) if keys else []
        return self._coding.rows(keys, found)


def _as_it_is(value: Any) -> Any:
    return value
