"""Restores the stores of a task from their changelogs, slice by slice, before the task processes records."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from streamtopo.errors import StoreError
from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.rows.layout import layout_of, past_of, prefix_of, stored_rows
from streamtopo.stores.trust import Facts, Stamp, why_deletions_may_be_gone, why_not_trusted

logger = logging.getLogger("streamtopo")

_AT_ONCE = 16 << 20
"""About how many bytes a slice has."""
_TOMBSTONES_STAY = "86400000"
"""Milliseconds for which a log keeps deletions, if the topic has no setting: the default of Kafka, a day."""


def claim(spec: StoreSpec, log: Log, store: Store, emptied: int) -> None:
    """Open a store without a changelog, which cannot be restored: keep its rows, or start empty.

    `emptied` says how often an accepted change of the topology has emptied it; rows from before that are deleted.
    """
    kept, layout = store.stamp(spec.name), layout_of(spec)
    changelog = str(emptied or "")
    if kept is not None and (reason := _why_emptied(kept, log, changelog, layout)):
        logger.warning('store "%s" starts empty: %s', spec.name, reason)
        _empty(store, spec.name)
    store.belongs_to(spec.name, log.id, changelog, layout)
    store.write({}, {spec.name: 0})


def _why_emptied(kept: Stamp, log: Log, changelog: str, layout: str) -> str | None:
    if kept.log != log.id:
        return f'its rows belong to another log, "{kept.log}"'
    if kept.changelog != changelog:
        return "its rows are from before an accepted change of the topology"
    if kept.layout not in ("", layout):  # older programs did not write it
        return f"it has no changelog, and its rows are stored as {kept.layout}, not {layout or 'plain rows'}"
    return None


def _empty(store: Store, name: str) -> None:
    store.delete_range(prefix_of(name), past_of(name), forget=name)


@dataclass
class Restoration:
    """Reads the changelog of one store, from the position of the store to the end at the time the task was opened.

    It is done when the position reaches that end, even if there are few records before it: compaction and transaction
    markers leave gaps.
    """

    spec: StoreSpec
    changelog: TopicPartition
    log: Log
    store: Store
    now: Callable[[], int]
    next: int = field(init=False)
    _as_of: int = field(init=False)
    _ended: int = field(init=False)
    """The time at which the end of the changelog was read."""
    _over: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._ended = self.now()
        self.end = self.log.end(self.changelog)
        self.start = self.log.start(self.changelog)
        topic = self.log.topics()[self.changelog.topic]
        self._origin = self.log.id, topic.id or topic.name
        self._retention = int(topic.setting("delete.retention.ms", _TOMBSTONES_STAY))
        kept = self.store.stamp(self.spec.name)
        if kept is None:
            self._from(self.start, as_of=self.now())
        elif reason := why_not_trusted(kept, self._facts()):
            self._rebuild(reason, other_log=kept.log != self.log.id)
        else:
            self._from(kept.offset, as_of=kept.written_at)

    @property
    def done(self) -> bool:
        return self.next >= self.end

    def step(self, limit: int) -> int:
        """Restore up to `limit` records; return how many there were."""
        if self.done:
            return 0
        batch = self.log.read(self.changelog, self.next, limit, _AT_ONCE)
        holes = batch.next_offset - self.next > len(batch.offsets)
        if holes and (reason := why_deletions_may_be_gone(self.next, self._as_of, self._facts())):
            # Deletions of rows that were read before may be missing from here on.
            self._start_over(reason)
            return 0
        self.next = batch.next_offset
        as_of = self._ended if self.done else self._as_of
        self.store.write(stored_rows(self.spec, batch.columns), {self.spec.name: batch.next_offset}, as_of=as_of)
        return len(batch.offsets)

    def _facts(self) -> Facts:
        cleaned = self.log.cleaned(self.changelog)
        return Facts(*self._origin, self.start, self.end, self.now(), self._retention, layout_of(self.spec), cleaned)

    def _from(self, offset: int, *, as_of: int) -> None:
        self.next = offset
        self._as_of = as_of
        self.store.belongs_to(self.spec.name, *self._origin, layout_of(self.spec))

    def _start_over(self, reason: str) -> None:
        if self._over:
            raise StoreError(
                f'store "{self.spec.name}" cannot be restored in time: {reason}; start the worker again; '
                f'on Kafka, first give the topic "{self.changelog.topic}" a longer delete.retention.ms'
            )
        self._over = True
        self.start = self.log.start(self.changelog)
        self._rebuild(reason)

    def _rebuild(self, reason: str, *, other_log: bool = False) -> None:
        if other_log:
            _warn_once(reason)
        else:
            logger.warning('store "%s" is rebuilt from its changelog %s: %s', self.spec.name, self.changelog, reason)
        _empty(self.store, self.spec.name)
        self._from(self.start, as_of=self.now())


@cache
def _warn_once(reason: str) -> None:
    """All stores of the state directory come from the other log."""
    logger.warning("each store is rebuilt from its changelog: %s. Give each log its own --state-dir", reason)
