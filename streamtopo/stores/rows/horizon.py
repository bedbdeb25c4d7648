"""The time from which every row of a store with windows is in memory: newer rows need no look-up in the store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from streamtopo.stores.rows.committed_rows import CommittedRows


class Horizon:
    """Most windows that get their first row are newer than all rows that are only in the store."""

    def __init__(self, committed: CommittedRows) -> None:
        self._committed = committed
        self._time: int | None = None
        """All rows from this time on are in memory; None until it is needed."""
        self._next = -1
        """The latest time of the rows that will be forgotten next."""

    def keys_to_look_up(self, index: Collection[Any]) -> list[Any]:
        """The keys that the store may have, out of these, none of which is in memory."""
        if not index:
            return []
        if self._time is None:
            self._time = self._committed.end_of_last_segment()
        times = self._committed.coding.times(index)
        if min(times) >= self._time:
            return []
        return [key for key, time in zip(index, times, strict=True) if time < self._time]

    def forget_older(self, kept: Collection[Any]) -> None:
        """Right after a commit: only these rows are still in memory, until the next call."""
        if self._time is not None:
            self._time = max(self._time, self._next + 1)
        self._next = max(self._committed.coding.times(kept), default=-1)
