"""Brings a task's stores up to their changelogs, slice by slice, before the task processes anything."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.state import prefix_of, stored_rows


@dataclass
class Restoration:
    """One store's way from the position it holds to the end its changelog had when the task was opened.

    It is over when the reading position reaches that end, however few records lie before it: compaction and
    transaction markers leave gaps.
    """

    spec: StoreSpec
    changelog: TopicPartition
    log: Log
    store: Store

    def __post_init__(self) -> None:
        self.end = self.log.end(self.changelog)
        self.start = start = self.log.start(self.changelog)
        known = self.store.position(self.spec.name)
        self.rebuilt = known is not None and not start <= known <= self.end
        if self.rebuilt:
            self._empty()
        self.next = start if known is None or self.rebuilt else known

    @property
    def done(self) -> bool:
        return self.next >= self.end

    def step(self, limit: int) -> int:
        """Restore up to `limit` records; returns how many there were."""
        if self.done:
            return 0
        batch = self.log.read(self.changelog, self.next, limit)
        self.store.write(stored_rows(self.spec, batch.columns), {self.spec.name: batch.next_offset})
        self.next = batch.next_offset
        return len(batch.offsets)

    def _empty(self) -> None:
        prefix = prefix_of(self.spec.name)
        self.store.delete_range(prefix, prefix[:-1] + b"\1")
