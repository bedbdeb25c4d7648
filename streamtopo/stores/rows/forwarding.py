"""What the nodes after a table receive of its changes, and what the record cache holds back until the commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamtopo.records import Chunk, Puts, concatenate, has_null, private_column
from streamtopo.stores.rows.changes import LastChanges
from streamtopo.stores.rows.coding import Row
from streamtopo.stores.rows.committed_rows import CommittedRows


class HeldBack:
    """What the record cache holds back in one commit."""

    def __init__(self) -> None:
        self.rows: dict[Any, Row | None] = {}
        """Rows as they were last forwarded, if they were in memory when they were loaded."""
        self.flushed = False


class Forwarding:
    """Children receive updates; watchers, which read the rows at each of their own, are also sent each row put."""

    def __init__(self, committed: CommittedRows) -> None:
        self.sends_old = False
        """Updates carry the old values."""
        self.watched = False
        """Other nodes read the rows as they were at each row of their own, and receive each row that is put."""
        self.held: HeldBack | None = None
        """None: nothing is held back, each update is forwarded when it is made."""
        self.before: dict[Any, Row | None] = {}
        """If watched, or if each update carries its old value: the rows last loaded, as they were then."""
        self.time_before = -1
        """Of a store with versions: its time before the rows last put."""
        self._puts: Puts | None = None
        self._committed = committed

    def send_old(self) -> None:
        """The node that keeps the rows was opened, and its children need old values."""
        self.sends_old = True

    def watch(self) -> None:
        """The program was opened, and other nodes watch the one that keeps the rows."""
        self.watched = True

    def restart(self, *, hold_back: bool) -> None:
        """A new commit begins."""
        self.held = HeldBack() if hold_back else None
        self.before = {}
        self._puts = None

    # -- while rows are put

    def loaded(self, index: Collection[Hashable], rows: Mapping[Any, Row | None], changed: Collection[Any]) -> None:
        """Remember these rows as they are now, before the caller changes them."""
        copied = self._committed.coding.copied
        if self.watched or self.held is None:
            self.before = {key: copied(rows[key]) for key in index}
        if self.sends_old and self.held is not None:
            unchanged = set(index).difference(changed, self.held.rows)
            self.held.rows.update((key, copied(rows[key])) for key in unchanged)

    def loaded_also(
        self, index: Collection[Hashable], rows: Mapping[Any, Row | None], changed: Collection[Any]
    ) -> None:
        """Remember some more rows, besides those that were loaded last."""
        copied = self._committed.coding.copied
        before = self.before if self.watched or self.held is None else {}
        for key in index:
            row = before.setdefault(key, copied(rows[key]))
            if self.held is not None and key not in changed:
                self.held.rows.setdefault(key, row)

    def put(self, index: Sequence[Hashable], chunk: Chunk, time_before: int) -> None:
        """Watchers are to receive these rows."""
        self.time_before = time_before
        self._puts = Puts(list(index), chunk.values, chunk.timestamps, chunk.order or [], self.before)

    def take_puts(self) -> Puts | None:
        """The rows put since the last call, if watchers are to receive them."""
        puts, self._puts = self._puts, None
        return puts

    def with_old(self, index: Sequence[Hashable], chunk: Chunk, snapshot: Callable[[Any], Any]) -> Chunk:
        """Updates just put, each with its key's value before."""
        before = {key: row and row[0] for key, row in self.before.items()}
        old = []
        for key, value in zip(index, chunk.values, strict=True):
            old.append(snapshot(before[key]))
            before[key] = value
        return chunk.with_old(old)

    @property
    def each_update(self) -> bool:
        """Whether anybody receives more than the last update of a key in a commit."""
        return self.held is None or self.watched

    # -- what the cache holds back

    @property
    def holds_back(self) -> bool:
        """Whether changes wait in the cache, which was not flushed in this commit."""
        return self.held is not None and not self.held.flushed

    def held_back(self, index: Iterable[Hashable], changed: Collection[Any]) -> dict[Any, Row | None]:
        """The rows among these whose changes wait in the cache, as they were last forwarded."""
        return self._as_forwarded([key for key in index if key in changed]) if self.holds_back else {}

    def flush(self, last: LastChanges, expired: list[Chunk]) -> Chunk:
        """What was held back: each changed key's last change in this order, then the updates of expired rows."""
        if self.held is not None:
            self.held.flushed = True
        updates = self._last_updates(last)
        if self.watched:
            index = self._committed.coding.index(updates.keys)
            self._puts = Puts(index, updates.values, updates.timestamps, [], self.before)
        return replace(concatenate([updates, *expired]), sides=None) if expired else updates

    def _last_updates(self, last: LastChanges) -> Chunk:
        """Without the rows that were created and deleted since the last flush."""
        keys, values, _, _ = last
        if not self.sends_old and not self.watched and not has_null(values):
            return self._chunk(last)
        wanted = (
            keys
            if self.sends_old or self.watched
            else [key for key, value in zip(keys, values, strict=True) if value is None]
        )
        self.before = before = self._as_forwarded(wanted)
        chunk = self._chunk(last)
        if self.sends_old:
            old = [row and row[0] for row in map(before.__getitem__, keys)]
            chunk = chunk.with_old(private_column(old) if self.watched else old)
        changed = [value is not None or before[key] is not None for key, value in zip(keys, values, strict=True)]
        return chunk if all(changed) else chunk.select(changed)

    def _chunk(self, last: LastChanges) -> Chunk:
        spec = self._committed.spec
        keys = last.keys if spec.key.exact else spec.key.decode_column(last.keys)
        values = private_column(last.values) if spec.value.mutable else last.values
        return Chunk(keys, values, last.times, last.headers)

    def _as_forwarded(self, keys: list[Any]) -> dict[Any, Row | None]:
        held = self.held.rows if self.held is not None else {}
        return held | self._committed.get([key for key in keys if key not in held])
