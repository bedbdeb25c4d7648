"""One store as operators see it: typed rows, with this commit's changes in front of the committed bytes."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from streamtopo.records import NOTHING, Chunk, Columns, Headers, private, private_column
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.layout import SEGMENT_BYTES, placed, prefix_of, segment_start

Row = tuple[Any, int]
"""A value and its timestamp."""

Listed = tuple[list[Any], list[Any], list[int], list[Headers] | None]
"""Changed keys, and the value, time and headers that each has."""

_TIME = struct.Struct(">q")
_ROW_OVERHEAD = 250
"""Bytes that a row costs as Python objects, beside its key and value."""


class State:
    """Rows are kept by key, or by the key's bytes where equal keys may differ as bytes: `index` says which.

    With the record cache on, a key changed a thousand times in a commit is written, logged and forwarded once.
    Values handed out or forwarded are never the objects kept here, unless nobody could change them.
    """

    def __init__(self, spec: StoreSpec, store: Store, *, cached: bool = False) -> None:
        self.spec = spec
        self.cached = cached
        self.prefix = prefix_of(spec.name)
        self._past = spec.name.encode() + b"\1"
        self.snapshot: Callable[[Any], Any] = private if spec.value.mutable else _as_it_is
        self.watched = False
        """Other nodes read these rows as they were at each row of their own, and are told of each that is put."""
        self.sends_old = False
        """What is forwarded carries the old values."""
        self.time_before = -1
        """Of a store with versions: its time before the rows last put."""
        self.forgets = False
        """Rows are not kept once they are durable: whoever puts them keeps those that it will want again."""
        self._store = store
        self._segment_bytes = SEGMENT_BYTES if spec.segment else 0
        self._row_bytes = _ROW_OVERHEAD
        self.rollback()

    def rollback(self) -> None:
        """Back to what is committed. Kept rows go too: a step that raised may have changed one in place."""
        self._rows: dict[Any, Row | None] = {}
        self._older: dict[Any, Row | None] = {}
        self._before: dict[Any, tuple[Row | None, int | None]] | None = None
        self.first: dict[Any, Row | None] = {}
        """If watched, or old values are sent: the rows last loaded, as they were then."""
        self._puts = NOTHING
        self._expired = 0
        """The first segment that may have rows."""
        self._begin()

    def _begin(self) -> None:
        self.forward_each = not self.cached
        self._changes = 0
        """How many there were in this commit: each has a number, a time, and headers if any has."""
        self._dirty: dict[Any, int] = {}
        """The number of each changed key's last change."""
        self._times: list[int] = []
        self._headers: dict[int, Headers] = {}
        self._sorted: list[bytes] | None = None
        self._log: list[Columns] = []
        self._listed: tuple[int, Listed] | None = None
        """The last changes, as asked for when there were so many: a commit flushes them, then takes them."""
        self._flushed: dict[Any, Row | None] = {}
        """Where old values are sent: the changed rows as they last went out of the cache."""

    # -- rows

    def index(self, keys: list[Any]) -> list[Hashable]:
        return keys if self.spec.key.exact else self.spec.key.encode_column(keys)  # type: ignore[return-value]

    def load(self, index: Iterable[Hashable]) -> dict[Any, Row | None]:
        """All kept rows, these among them (None where there is none); put new ones in, then say `changed`."""
        missing = set(index).difference(self._rows)
        if missing:
            self._fetch(missing)
        if self._before is not None:
            for key in index:
                self._before.setdefault(key, (private(self._rows[key]), self._dirty.get(key)))
        if self.watched or self.sends_old:
            self.first = {key: self.copied(self._rows[key]) for key in index}
            if self.sends_old:
                self._flushed = self.first | self._flushed
        return self._rows

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
            self._log.append(self._encoded([key], [value], [time], None))
        if self._sorted is not None:
            self._sort_in((key,), self._sorted)
        self._rows[key] = row
        self._dirty[key] = self._changes
        self._changes += 1
        self._times.append(time)

    def add(self, rows: dict[Any, Row]) -> None:
        """Rows under keys that never had any, so that nothing is there to be looked up."""
        self._put_all(rows, [time for _, time in rows.values()])

    def _put_all(self, rows: Mapping[Any, Row | None], times: list[int]) -> None:
        """Those that were there before, if any, are those in the store: what `undo` goes back to."""
        first, self._changes = self._changes, self._changes + len(rows)
        if self._before is not None:
            self._before.update(dict.fromkeys(rows, (None, None)))
        if self._sorted is not None:
            self._sort_in(rows, self._sorted)
        self._rows.update(rows)
        self._dirty.update(zip(rows, range(first, self._changes), strict=True))
        self._times.extend(times)

    def changed(self, index: Sequence[Hashable], chunk: Chunk) -> Chunk:
        """Rows were put, in this order, with the chunk's values (None deleted); returns what to forward now."""
        first, self._changes = self._changes, self._changes + len(index)
        if self._sorted is not None:
            self._sort_in(set(index), self._sorted)
        self._dirty.update(zip(index, range(first, self._changes), strict=True))
        self._times.extend(chunk.timestamps)
        if chunk.headers is not None:
            self._headers.update(zip(range(first, self._changes), chunk.headers, strict=True))
        if self.watched:
            self._puts = Chunk(list(index), chunk.values, chunk.timestamps, order=chunk.order)
        if not self.forward_each:
            return NOTHING
        if self._log_each:
            self._log.append(self._encoded(index, chunk.values, chunk.timestamps, chunk.headers))
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
        """The changes that the cache held back, in the order of the keys' last changes."""
        if self.forward_each:
            return NOTHING
        keys, values, times, headers = self._last_changes()
        return Chunk(
            keys if self.spec.key.exact else self.spec.key.decode_column(keys),
            private_column(values) if self.spec.value.mutable else values,
            times,
            headers,
            old=[row and row[0] for row in map(self._flushed.get, keys)] if self.sends_old else None,
        )

    def scan(self, start: bytes, stop: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, Row]]:
        """Rows with start <= key bytes < stop (None: to the end) as they are now, this commit's included.

        In a store with segments both bounds begin with a segment; the keys that come out do not.
        """
        if self._sorted is None:
            self._sorted = sorted(self._placed(list(self._dirty)))
        last = len(self._sorted) if stop is None else bisect_left(self._sorted, stop)
        changed = self._sorted[bisect_left(self._sorted, start) : last]
        new = {key: row and (private(row[0]), row[1]) for key, row in map(self._kept, changed)}
        cut = len(self.prefix)
        past = self._past if stop is None else self.prefix + stop
        stored = self._store.scan(self.prefix + start, past, reverse=reverse)
        old = ((key[cut:], self._decoded(data)) for key, data in stored if key[cut:] not in new)
        merged = merge(old, sorted(new.items(), reverse=reverse), key=_key, reverse=reverse)
        return ((key[self._segment_bytes :], row) for key, row in merged if row is not None)

    def drop_stored(self, start: bytes, stop: bytes, limit: int) -> int:
        """Delete up to `limit` of the rows that were committed with start <= key bytes < stop; returns how many.

        For rows that nobody changed since, in a store that makes its own key bytes. Nothing is looked up or sorted.
        """
        found = islice(self._store.scan(self.prefix + start, self.prefix + stop), limit)
        cut = len(self.prefix) + self._segment_bytes
        rows: dict[Any, Row | None] = {key[cut:]: None for key, _ in found}
        self._put_all(rows, [0] * len(rows))
        return len(rows)

    def expire(self, before: int, limit: int) -> None:
        """Delete up to `limit` rows of the segments that end before this time, oldest first."""
        live = before // self.spec.segment
        if live <= self._expired:
            return
        old = list(islice(self.scan(segment_start(self._expired), segment_start(live)), limit))
        for key, row in old:
            index = self.spec.key.decode(key) if self.spec.key.exact else key
            self.row(index)
            self.put(index, None, row[1])
        if len(old) < limit:
            self._expired = live

    # -- commit

    def take_changes(self) -> tuple[dict[bytes, bytes | None], list[Columns]]:
        """What to write into the store, and the records of its changelog."""
        keys, values, times, headers = self._last_changes()
        columns = self._encoded(keys, values, times, headers)
        stored = stored_rows(self.spec, columns)
        if keys:
            size = sum(map(len, stored)) + sum(len(data) for data in stored.values() if data is not None)
            self._row_bytes = _ROW_OVERHEAD + size // len(keys)
        if not self.spec.logged:
            return stored, []
        return stored, self._log if self._log_each else [columns]

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
        return len(self._dirty) * self._row_bytes

    @property
    def kept_bytes(self) -> int:
        """About how many bytes all rows take that are kept at hand."""
        return (len(self._rows) + len(self._older)) * self._row_bytes

    def forget_older(self) -> None:
        """Right after a commit: forget the rows that were not used since this was last said."""
        self._rows, self._older = {}, self._rows

    # -- one record at a time, while a failing one is looked for

    def mark(self) -> None:
        """From here on remember what changes, for `undo`."""
        self._before = {}
        self._marked = self._changes, len(self._log)

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
        self._changes, logged = self._marked
        self._listed = None
        del self._times[self._changes :], self._log[logged:]
        self._headers = {number: headers for number, headers in self._headers.items() if number < self._changes}
        self._sorted = None

    def check(self) -> None:
        """Encode what changed since the mark, so that a wrong type is found while its record is at hand."""
        if self._before is None:
            return
        changed = [key for key in self._before if key in self._dirty]
        rows = [self._rows[key] for key in changed]
        self._encoded(changed, [row and row[0] for row in rows], [], None)

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
        if self._listed is None or self._listed[0] != self._changes:
            self._listed = self._changes, self._list_changes()
        return self._listed[1]

    def _list_changes(self) -> Listed:
        keys = sorted(self._dirty, key=self._dirty.__getitem__)
        numbers = [self._dirty[key] for key in keys]
        rows = [self._rows[key] for key in keys]
        return (
            keys,
            [row and row[0] for row in rows],
            [self._times[number] if row is None else row[1] for row, number in zip(rows, numbers, strict=True)],
            [self._headers.get(number, ()) for number in numbers] if self._headers else None,
        )

    def _fetch(self, missing: set[Hashable]) -> None:
        older = self._older
        if older:
            self._rows.update((key, older[key]) for key in missing if key in older)
            missing.difference_update(self._rows)
        keys: list[Any] = list(missing)
        found = self._store.get_many([self.prefix + key for key in self._placed(keys)])
        self._rows.update(zip(keys, self._decoded_column(found), strict=True))

    def _decoded(self, data: bytes | None) -> Row | None:
        if data is None:
            return None
        if not self.spec.timestamped:
            return self.spec.value.decode(data), -1
        return self.spec.value.decode(data[8:]), _TIME.unpack_from(data)[0]

    def _decoded_column(self, found: list[bytes | None]) -> list[Row | None]:
        there = [data for data in found if data is not None]
        if not self.spec.timestamped:
            rows = iter([(value, -1) for value in self.spec.value.decode_column(list(there))])
        else:
            values = self.spec.value.decode_column([data[8:] for data in there])
            rows = iter([(value, _TIME.unpack_from(data)[0]) for value, data in zip(values, there, strict=True)])
        return [None if data is None else next(rows) for data in found]

    def _encoded(
        self, index: Sequence[Any], values: list[Any], timestamps: list[int], headers: list[Headers] | None
    ) -> Columns:
        keys: list[bytes | None] = [*self._key_bytes(list(index))]
        if headers is not None and not any(headers):
            headers = None
        return Columns(keys, self.spec.value.encode_column(values), timestamps, headers)

    def _key_bytes(self, index: list[Any]) -> list[bytes]:
        return self.spec.key.encode_column(index) if self.spec.key.exact else index  # type: ignore[return-value]

    def _placed(self, index: list[Any]) -> list[bytes]:
        return placed(self.spec, self._key_bytes(index))

    def _kept(self, key: bytes) -> tuple[bytes, Row | None]:
        bare = key[self._segment_bytes :]
        return key, self._rows[self.spec.key.decode(bare) if self.spec.key.exact else bare]

    def _sort_in(self, keys: Iterable[Any], into: list[bytes]) -> None:
        for key in keys:
            if key not in self._dirty:
                insort(into, self._placed([key])[0])


def stored_rows(spec: StoreSpec, changelog: Columns) -> dict[bytes, bytes | None]:
    """A store's bytes for changelog records: timestamped rows carry the record's timestamp in front."""
    prefix = prefix_of(spec.name)
    keys = [prefix + key for key in placed(spec, [key for key in changelog.keys if key is not None])]
    if not spec.timestamped:
        return dict(zip(keys, changelog.values, strict=True))
    times = map(_TIME.pack, changelog.timestamps)
    values = [value if value is None else time + value for time, value in zip(times, changelog.values, strict=True)]
    return dict(zip(keys, values, strict=True))


def _key(item: tuple[bytes, Row | None]) -> bytes:
    return item[0]


def _as_it_is(value: Any) -> Any:
    return value
