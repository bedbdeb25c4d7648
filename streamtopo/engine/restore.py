"""Brings a task's stores up to their changelogs, slice by slice, before the task processes anything."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from streamtopo.logs import Log, Topic
from streamtopo.records import TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.layout import past_of, prefix_of, stored_rows
from streamtopo.stores.trust import Facts, why_not_trusted

logger = logging.getLogger("streamtopo")

_TOMBSTONES_STAY = 86_400_000
"""Milliseconds for which a log keeps deletions when the topic does not say: Kafka's default, a day."""


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
    now: Callable[[], int]

    def __post_init__(self) -> None:
        self.end = self.log.end(self.changelog)
        self.start = self.log.start(self.changelog)
        topic = self.log.topics()[self.changelog.topic]
        kept = self.store.stamp(self.spec.name)
        if kept is not None and (reason := why_not_trusted(kept, self._facts(topic))):
            logger.warning('store "%s" is rebuilt from its changelog %s: %s', self.spec.name, self.changelog, reason)
            self._empty()
            kept = None
        self.next = self.start if kept is None else kept.offset
        self._origin = self.log.id, topic.id or topic.name
        as_of = 0 if kept is None else kept.written_at
        self.store.belongs_to(self.spec.name, *self._origin, as_of=None if self.done else as_of)

    @property
    def done(self) -> bool:
        return self.next >= self.end

    def step(self, limit: int) -> int:
        """Restore up to `limit` records; returns how many there were."""
        if self.done:
            return 0
        batch = self.log.read(self.changelog, self.next, limit)
        self.next = batch.next_offset
        if self.done:
            self.store.belongs_to(self.spec.name, *self._origin)
        self.store.write(stored_rows(self.spec, batch.columns), {self.spec.name: batch.next_offset})
        return len(batch.offsets)

    def _facts(self, topic: Topic) -> Facts:
        retention = int(topic.config.get("delete.retention.ms", _TOMBSTONES_STAY))
        return Facts(self.log.id, topic.id or topic.name, self.start, self.end, self.now(), retention)

    def _empty(self) -> None:
        name = self.spec.name
        self.store.delete_range(prefix_of(name), past_of(name), forget=name)
