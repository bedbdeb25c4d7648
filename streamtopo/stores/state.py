"""One store as operators see it: typed rows, with this commit's changes in front of the committed bytes."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from streamtopo.records import NOTHING, Chunk, Columns, Headers, private, private_column
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.layout import (
    SEGMENT_BYTES,
    placed,
    prefix_of,
    segment_start,
    stored_rows,
    timed,
    timed_prefix_of,
    untimed,
)

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
        self._expired = segment_start(0)
        """Where the first rows are that may still have to be deleted for their age."""
        self.commits = 0
        self._begin()

    def _begin(self) -> None:
        self.forward_each = not self.cached
        self._changes = 0
        """How many there were in this commit: each has a number, a time, and headers if any has."""
        self._dirty: dict[Any, int] = {}
        """The number of each changed key's last change."""
        self._times: list[int] = []
        self._headers: dict[int, Headers] = {}
        self._live: bytes | None = None
        self._gone: list[Columns] = []
        """Rows deleted for their age."""
        self.commits += 1
        self._sorted: list[bytes] | None = None
        self._born: set[Any] = set()
        """Keys that had no row before this commit: if they have none after it, nobody need know of them."""
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

    def absent(self, key: Any) -> None:
        """What `load` does, for one key whose row is at hand or known to be nowhere."""
        if key not in self._rows:
            self._rows[key] = None
            self._born.add(key)
        if self._before is not None:
            self._before.setdefault(key, (private(self._rows[key]), self._dirty.get(key)))
        if self.watched or self.sends_old:
            row = self.first.setdefault(key, self.copied(self._rows[key]))
            self._flushed.setdefault(key, row)

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
            self._log.append(self._encoded([key], [value], [time], None))
        if self._sorted is not None:
            self._sort_in((key,), self._sorted)
        self._rows[key] = row
        self._dirty[key] = self._changes
        self._changes += 1
        self._times.append(time)

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

    def by_time(self, start: int, stop: int) -> list[tuple[Hashable, Row]]:
        """Rows with start <= time in their key < stop, as they are now, by time and then by the rest of the key."""
        spec, prefix = self.spec, timed_prefix_of(self.spec.name)
        first, past = (max(0, time).to_bytes(8) for time in (start, stop))
        found = {key[len(prefix) :] for key, _ in self._store.scan(prefix + first, prefix + past)}
        changed = (timed(spec, key) for key in self._key_bytes(list(self._dirty)))
        found.update(key for key in changed if first <= key < past)
        keys = [untimed(spec, key) for key in sorted(found)]
        index = spec.key.decode_column([*keys]) if spec.key.exact else keys
        rows = self.look(index)
        return [(key, row) for key in index if (row := self.copied(rows[key])) is not None]

    def committed_keys(self, start: bytes, stop: bytes) -> list[bytes]:
        """The keys with start <= segment and key bytes < stop that are in the store, whatever this commit changed."""
        cut = len(self.prefix) + self._segment_bytes
        return [key[cut:] for key, _ in self._store.scan(self.prefix + start, self.prefix + stop)]

    def expire(self, before: int, limit: int) -> None:
        """Delete up to `limit` rows of the segments that end before this time, oldest first; nobody is told.

        The first call in a commit says which segments: from then on nothing may be put into them.
        """
        if self._live is None:
            self._live = segment_start(before // self.spec.segment)
        if self._live <= self._expired:
            return
        cut = len(self.prefix)
        stored = self._store.scan(self.prefix + self._expired, self.prefix + self._live)
        old = [key[cut:] for key, _ in islice(stored, limit)]
        self._expired = old[-1] + b"\0" if len(old) == limit else self._live
        keys: list[bytes | None] = [key[self._segment_bytes :] for key in old]
        for key in self.spec.key.decode_column(keys) if self.spec.key.exact else keys:
            self._older.pop(key, None)
            if key in self._rows:
                self._rows[key] = None
        self._gone.append(Columns(keys, [None] * len(keys), [before] * len(keys)))

    # -- commit

    def take_changes(self) -> tuple[dict[bytes, bytes | None], list[Columns]]:
        """What to write into the store, and the records of its changelog."""
        keys, values, times, headers = self._last_changes()
        columns = self._encoded(keys, values, times, headers)
        stored = stored_rows(self.spec, columns)
        if keys:
            size = sum(map(len, stored)) + sum(len(data) for data in stored.values() if data is not None)
            self._row_bytes = _ROW_OVERHEAD + size // len(keys)
        for gone in self._gone:
            stored |= stored_rows(self.spec, gone)
        if not self.spec.logged:
            return stored, []
        return stored, [*(self._log if self._log_each else [columns]), *self._gone]

    def committed(self) -> None:
        """The changes taken are durable."""
        self._begin()

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
        known = (key for key in self._dirty if key not in self._born or self._rows[key] is not None)
        keys = sorted(known, key=self._dirty.__getitem__)
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
        self._rows.update(zip(keys, map(self._decoded, found), strict=True))

    def _decoded(self, data: bytes | None) -> Row | None:
        if data is None:
            return None
        if not self.spec.timestamped:
            return self.spec.value.decode(data), -1
        return self.spec.value.decode(data[8:]), _TIME.unpack_from(data)[0]

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


def _key(item: tuple[bytes, Row | None]) -> bytes:
    return item[0]


def _as_it_is(value: Any) -> Any:
    return value
