"""The changes of one commit to the rows of a store."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamtopo.records import Chunk, Columns, Headers, private
from streamtopo.stores.rows.coding import Row


class LastChanges(NamedTuple):
    """The changed keys in the order of their last changes, and the value, time and headers that each has."""

    keys: list[Any]
    values: list[Any]
    times: list[int]
    headers: list[Headers] | None


class RowChanges:
    """Each change has a number, a time, and headers if any change has. There is a new object for each commit."""

    def __init__(self, *, log_updates: bool) -> None:
        self.token = object()
        """Tells these changes from others, for objects that must not keep them in memory."""
        self.count = 0
        self.last: dict[Any, int] = {}
        """The number of each changed key's last change."""
        self.times: list[int] = []
        self.headers: dict[int, Headers] = {}
        self.born: set[Any] = set()
        """Keys without a row before this commit: if they have none after it either, nothing has changed."""
        self.appended: list[Columns] = []
        """Encoded rows under new keys, as long as none of them is read."""
        self.updates: list[Columns] | None = [] if log_updates else None
        """All updates, if the changelog gets each one; otherwise it gets the last change of each key."""
        self.expired: list[Chunk] = []
        """Updates held back by the cache, of rows that expired before they were put: these are only forwarded."""
        self._listed: tuple[int, LastChanges] | None = None
        """The last changes when there were this many: a commit first flushes them, then takes them."""

    def numbers(self, index: Collection[Hashable]) -> dict[Hashable, int]:
        """If these are the next changes: the number that the last change of each key will have."""
        return dict(zip(index, range(self.count, self.count + len(index)), strict=True))

    def add(self, last: Mapping[Hashable, int], times: Sequence[int], headers: Sequence[Headers] | None) -> None:
        """One change for each of these times; `last` is what `numbers` returned for them."""
        first, self.count = self.count, self.count + len(times)
        self.last.update(last)
        self.times.extend(times)
        if headers is not None:
            self.headers.update(zip(range(first, self.count), headers, strict=True))

    def listed(self, rows: Mapping[Any, Row | None]) -> LastChanges:
        """The last changes; `rows` has the rows of all changed keys."""
        if self._listed is None or self._listed[0] != self.count:
            self._listed = self.count, self._list(rows)
        return self._listed[1]

    def _list(self, rows: Mapping[Any, Row | None]) -> LastChanges:
        number = self.last.__getitem__
        keys = sorted(self.last, key=number)
        if self.born:
            keys = [key for key in keys if rows[key] is not None or key not in self.born]
        changed = list(map(rows.__getitem__, keys))
        return LastChanges(
            keys,
            [row and row[0] for row in changed],
            [self.times[number(key)] if row is None else row[1] for row, key in zip(changed, keys, strict=True)],
            [self.headers.get(number(key), ()) for key in keys] if self.headers else None,
        )


class Savepoint:
    """The rows and changes of a state before one record, while a failing record is looked for."""

    def __init__(self, changes: RowChanges) -> None:
        self._count = changes.count
        self._updates = len(changes.updates or ())
        self._expired = len(changes.expired)
        self.before: dict[Any, tuple[Row | None, int | None]] = {}
        """For each key that may change: its row, and the number of its last change."""

    def note(self, index: Iterable[Hashable], rows: Mapping[Any, Row | None], changes: RowChanges) -> None:
        """These rows may change, also in place."""
        for key in index:
            if key not in self.before:
                self.before[key] = private(rows[key]), changes.last.get(key)

    def undo(self, rows: dict[Any, Row | None], changes: RowChanges) -> RowChanges:
        """Put the rows back; returns the changes without those made since."""
        undone = RowChanges(log_updates=changes.updates is not None)
        undone.count = self._count
        undone.last = dict(changes.last)
        for key, (row, number) in self.before.items():
            rows[key] = row
            if number is None:
                undone.last.pop(key, None)
            else:
                undone.last[key] = number
        undone.times = changes.times[: self._count]
        undone.headers = {number: some for number, some in changes.headers.items() if number < self._count}
        undone.born = changes.born
        if changes.updates is not None:
            undone.updates = changes.updates[: self._updates]
        undone.expired = changes.expired[: self._expired]
        return undone
