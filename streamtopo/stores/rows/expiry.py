"""Deletes rows that are too old to be read: first in the changelog, later in the store, segment by segment."""

from __future__ import annotations

from itertools import islice

from streamtopo.records import Columns
from streamtopo.stores.rows.committed_rows import CommittedRows
from streamtopo.stores.rows.layout import segment_start


class Expiry:
    def __init__(self, committed: CommittedRows) -> None:
        self._committed = committed
        self._next = segment_start(0)
        """The place from which there may still be rows to delete in the changelog."""
        self._dropped = self._next
        """The first segment that may have rows in the store."""
        self._live: bytes | None = None
        """The first segment that does not expire in this commit."""
        self.deleted: list[Columns] = []
        """The rows deleted in this commit, as records of the changelog."""
        self.mark()

    def expire(self, before: int, limit: int) -> None:
        """Delete up to `limit` rows of the segments that end before this time, oldest first; none is forwarded.

        The first call in a commit decides which segments: from then on nothing may be put into them, and no row in
        them is read. The rows are deleted in the changelog now, and in the store when their whole segment is.
        """
        committed = self._committed
        segment_bytes = committed.coding.segment_bytes
        if self._live is None:
            self._live = segment_start(before // committed.spec.segment)
        if self._live <= self._next:
            return
        old = [place for place, _ in islice(committed.scan(self._next, self._live), limit)]
        self._next = old[-1] + b"\0" if len(old) == limit else self._live
        if old:
            keys: list[bytes | None] = [place[segment_bytes:] for place in old]
            self.deleted.append(Columns(keys, [None] * len(keys), [before] * len(keys)))

    def drop(self) -> None:
        """The changelog has the deletions: delete whole segments in the store."""
        segment = self._next[: self._committed.coding.segment_bytes]
        if segment > self._dropped:
            self._committed.delete_segments(self._dropped, segment)
            self._dropped = segment

    def mark(self) -> None:
        """From here on `undo` forgets what was decided: a record that fails may have a later time than all others."""
        self._marked = self._next, self._live, len(self.deleted)

    def undo(self) -> None:
        """Back to the mark."""
        self._next, self._live, count = self._marked
        del self.deleted[count:]

    def committed(self) -> None:
        self._live, self.deleted = None, []
