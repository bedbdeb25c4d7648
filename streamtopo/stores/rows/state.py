"""The rows of one store in one task, as operators see them: rows in memory in front of the committed ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, Protocol

from streamtopo.records import NOTHING, Chunk, Columns, private
from streamtopo.stores import Kind, Store, StoreSpec
from streamtopo.stores.rows.changes import RowChanges, Savepoint
from streamtopo.stores.rows.coding import Row as Row
from streamtopo.stores.rows.committed_rows import CommittedRows
from streamtopo.stores.rows.expiry import Expiry
from streamtopo.stores.rows.forwarding import Forwarding
from streamtopo.stores.rows.horizon import Horizon
from streamtopo.stores.rows.layout import stored_rows
from streamtopo.stores.rows.ordered import Ordered

_ROW_OVERHEAD = 250
"""Bytes that a row takes as Python objects, besides its key and value."""


class Companion(Protocol):
    """What an operator keeps in memory of a state's rows in a form of its own; it is forgotten as they are."""

    @property
    def kept_bytes(self) -> int: ...

    def forget_older(self) -> None: ...


class State:
    """Rows are kept by key, or by the key's bytes if equal keys may differ as bytes: `index` returns which.

    With the record cache on, a key changed a thousand times in a commit is written, logged and forwarded once.
    Values handed out or forwarded are never the objects kept here, unless they cannot be changed.
    """

    def __init__(self, spec: StoreSpec, store: Store, *, cached: bool = False) -> None:
        self.spec = spec
        self.cached = cached
        self.snapshot: Callable[[Any], Any] = private if spec.value.mutable else _as_it_is
        self.row_bytes = _ROW_OVERHEAD
        """About how many bytes a row takes."""
        self._committed = CommittedRows(spec, store)
        self.index = self._committed.coding.index
        self.copied = self._committed.coding.copied
        self.forwarding = Forwarding(self._committed)
        self.ordered = Ordered(self, self._committed)
        self._companion: Companion | None = None
        self.rollback()

    def attach(self, companion: Companion) -> None:
        """From now on the companion counts among the kept rows; it replaces the one before it."""
        self._companion = companion

    def rollback(self, *, hold_back: bool = True) -> None:
        """Back to what is committed. Kept rows go too: a step that raised may have changed one in place.

        Without `hold_back` the cache, if there is one, holds nothing back until the next commit.
        """
        self._rows: dict[Any, Row | None] = {}
        self._older: dict[Any, Row | None] = {}
        self._horizon = Horizon(self._committed) if self.spec.timed and self.spec.segment else None
        self.expiry = Expiry(self._committed)
        self._begin(hold_back=hold_back and self.cached)

    def _begin(self, *, hold_back: bool) -> None:
        """A commit begins. Stores that may be cached log each update if it is forwarded, others the last ones only."""
        self.changes = RowChanges(log_updates=not hold_back and self.spec.cached and self.spec.logged)
        self._savepoint: Savepoint | None = None
        self.forwarding.restart(hold_back=hold_back)
        self.ordered.restart()

    # -- rows

    def load(self, index: Collection[Hashable]) -> dict[Any, Row | None]:
        """All kept rows, with these among them (None if absent); update it in place, then call `changed`."""
        missing = set(index).difference(self._rows)
        if missing:
            self._fetch(missing)
        if self._savepoint is not None:
            self._savepoint.note(index, self._rows, self.changes)
        if self.forwarding.sends_old or self.forwarding.watched:
            self.forwarding.loaded(index, self._rows, self.changes.last)
        return self._rows

    def load_also(self, index: Collection[Hashable]) -> None:
        """Load more rows, besides those loaded last: each is in memory, or known to be absent from the store."""
        rows = self._rows
        born = [key for key in index if key not in rows]
        rows.update(dict.fromkeys(born))
        self.changes.born.update(born)
        if self._savepoint is not None:
            self._savepoint.note(index, rows, self.changes)
        if self.forwarding.sends_old or self.forwarding.watched:
            self.forwarding.loaded_also(index, rows, self.changes.last)

    def look(self, index: Iterable[Hashable]) -> dict[Any, Row | None]:
        """All kept rows, with these among them, only to be read."""
        missing = set(index).difference(self._rows)
        if missing:
            self._fetch(missing)
        return self._rows

    def scan(self, start: bytes, stop: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, Row]]:
        return self.ordered.scan(start, stop, reverse=reverse)

    def row(self, key: Any) -> Row | None:
        """One row: what `load` does for many."""
        rows = self._rows
        if self._savepoint is None and key in rows:
            return rows[key]
        return self.load((key,))[key]

    def put(self, key: Any, row: Row | None, time: int) -> None:
        """One change: what `changed` does for many, without forwarding."""
        changes = self.changes
        if changes.updates is not None:
            value = None if row is None else row[0]
            changes.updates.append(self._committed.coding.changelog([key], [value], [time], None))
        self._rows[key] = row
        changes.last[key] = changes.count
        changes.count += 1
        changes.times.append(time)

    def add(self, rows: dict[Any, Row]) -> None:
        """Rows under keys that never had any, so that the store need not be asked."""
        if self._savepoint is not None:
            self._savepoint.before.update(dict.fromkeys(rows, (None, None)))
        self._rows.update(rows)
        self.changes.add(self.changes.numbers(rows), [time for _, time in rows.values()], None)

    def append(self, keys: list[bytes], values: list[bytes], times: list[int]) -> None:
        """Encoded rows under keys that never had any; they go to the store unchanged if none is read before."""
        if keys:
            self.changes.appended.append(Columns([*keys], [*values], times))

    def changed(
        self, index: Sequence[Hashable], chunk: Chunk, last: dict[Hashable, int] | None = None, *, time_before: int = -1
    ) -> Chunk:
        """Rows were put, in this order, with the chunk's values (None deleted); returns what to forward now.

        `last` is what `changes.numbers` returned, if it was called. `time_before` is the time of a store with versions
        before these changes, for nodes that look up rows as they were.
        """
        changes, forwarding = self.changes, self.forwarding
        changes.add(changes.numbers(index) if last is None else last, chunk.timestamps, chunk.headers)
        if forwarding.watched:
            forwarding.put(index, chunk, time_before)
        if forwarding.held is not None:
            return NOTHING
        if changes.updates is not None:
            changes.updates.append(
                self._committed.coding.changelog(index, chunk.values, chunk.timestamps, chunk.headers)
            )
        return forwarding.with_old(index, chunk, self.snapshot) if forwarding.sends_old else chunk

    def changed_where(self, kept: Sequence[bool] | None, index: Sequence[Hashable], chunk: Chunk) -> Chunk:
        """What `changed` does for rows that are kept (None: all are). The others have expired: they are only forwarded.

        These have no old values, even if the rows before them are still in memory or in the store.
        """
        if kept is None or all(kept):
            return self.changed(index, chunk)
        passed = self.changed(list(compress(index, kept)), chunk.select(kept))
        if self.forwarding.held is not None:
            self.changes.expired.append(chunk.select([not is_kept for is_kept in kept]))
            return NOTHING
        if passed.old is None:
            return chunk
        old = iter(passed.old)
        return chunk.with_old([next(old) if is_kept else None for is_kept in kept])

    def settle(self) -> None:
        """Rows appended become rows like others."""
        appended, self.changes.appended = self.changes.appended, []
        for keys, values, times, _ in appended:
            rows = zip(self._committed.coding.index_of(keys), self.spec.value.decode_column(values), times, strict=True)
            self.add({key: (value, time) for key, value, time in rows})

    # -- commit

    def flush(self) -> Chunk:
        """What the cache held back."""
        if self.forwarding.held is None:
            return NOTHING
        return self.forwarding.flush(self.changes.listed(self._rows), self.changes.expired)

    def take_changes(self) -> tuple[dict[bytes, bytes | None], list[Columns]]:
        """What to write into the store, and the records of its changelog."""
        changes = self.changes
        columns = [self._committed.coding.changelog(*changes.listed(self._rows)), *changes.appended]
        stored: dict[bytes, bytes | None] = {}
        for some in columns:
            stored.update(stored_rows(self.spec, some))
        if count := sum(len(some.keys) for some in columns):
            size = sum(map(len, stored)) + sum(len(data) for data in stored.values() if data is not None)
            self.row_bytes = _ROW_OVERHEAD + size // count
        if not self.spec.logged:
            return stored, []
        return stored, [*(columns if changes.updates is None else changes.updates), *self.expiry.deleted]

    def committed(self) -> None:
        """The changes taken are durable."""
        self._begin(hold_back=self.cached)
        self.expiry.committed()
        if self.spec.kind is Kind.JOIN:  # a join keeps the rows that it will need again, encoded (`Recent`)
            self._rows, self._older = {}, {}

    # -- memory

    @property
    def changed_bytes(self) -> int:
        """About how many bytes the rows take that changed since the last commit."""
        changes = self.changes
        rows = len(changes.last) + sum(len(some.keys) for some in changes.appended) + sum(map(len, changes.expired))
        return rows * self.row_bytes

    @property
    def kept_bytes(self) -> int:
        """About how many bytes all kept rows take."""
        more = 0 if self._companion is None else self._companion.kept_bytes
        return (len(self._rows) + len(self._older)) * self.row_bytes + more

    def forget_older(self) -> None:
        """Right after a commit: forget the rows that were not used since the last call."""
        self._rows, self._older = {}, self._rows
        if self._horizon is not None:
            self._horizon.forget_older(self._older)
        if self._companion is not None:
            self._companion.forget_older()

    # -- one record at a time, while a failing one is looked for

    def mark(self) -> None:
        """From here on remember what changes, for `undo`."""
        self.settle()
        self._savepoint = Savepoint(self.changes)
        self.expiry.mark()

    def unmark(self) -> None:
        self._savepoint = None

    def undo(self) -> None:
        """Back to the mark."""
        if self._savepoint is not None:
            self.changes = self._savepoint.undo(self._rows, self.changes)
            self.expiry.undo()
            self.ordered.restart()

    def check(self) -> None:
        """Encode what changed since the mark: so a wrong type is found while it is known which record caused it."""
        if self._savepoint is None:
            return
        changed = [key for key in self._savepoint.before if key in self.changes.last]
        rows = [self._rows[key] for key in changed]
        self._committed.coding.changelog(changed, [row and row[0] for row in rows], [], None)

    # -- inside

    def _fetch(self, missing: set[Hashable]) -> None:
        if self.changes.appended:
            self.settle()
            missing.difference_update(self._rows)
        older = self._older
        if older:
            self._rows.update((key, older[key]) for key in missing if key in older)
            missing.difference_update(self._rows)
        if self._horizon is None:
            self._rows.update(self._committed.get(missing))
            return
        found = self._committed.get(self._horizon.keys_to_look_up(missing))
        # only now, as the look-up may raise: until it has succeeded, no row is known to be absent
        self._rows.update(dict.fromkeys(missing) | found)


def _as_it_is(value: Any) -> Any:
    return value
