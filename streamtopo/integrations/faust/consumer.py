"""Faust's consumer on the embedded log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from faust.exceptions import ImproperlyConfigured
from faust.transport import base
from faust.types import TP, ConsumerMessage
from faust.types.enums import ProcessingGuarantee
from mode import Service

from streamtopo.integrations.faust.assignment import announce
from streamtopo.integrations.faust.log_thread import LogThread
from streamtopo.integrations.faust.reader import Fetched, Reader
from streamtopo.integrations.faust.topics import Topics, TopicsMade
from streamtopo.records import Headers, TopicPartition

LOOK = 0.1
"""Seconds between two looks at the share of the worker."""
SLICE = 0.02
"""Seconds that one read waits for records, and that commits and seeks may have to wait for it."""
LIMIT = 5000
"""Records that one read returns, unless the app says how many."""
CLEANING = 1.0
"""Seconds between two rounds of retention and compaction."""

Record = tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes]]]
"""Offset, key, value, timestamp and headers."""


class Consumer(TopicsMade, base.Consumer):
    """The rules for consumers of Faust, found in its code and by experiments:

    - `subscribe` returns before any rebalance, which waits for the conductor, which waits for `subscribe`.
    - `app.on_rebalance_start` comes before `on_partitions_revoked`, which still sees the old assignment.
    - Messages have the generation of the app, which grows with every rebalance; streams skip those of another one.
    - `app.assignor` must know the assignment, for tables to find their changelogs and web views their workers.
    """

    _reader: Reader

    def __post_init__(self) -> None:
        guarantee: Any = self.app.conf.processing_guarantee
        if guarantee == ProcessingGuarantee.EXACTLY_ONCE:
            raise ImproperlyConfigured(
                'streamtopo:// has no transactions for Faust, so processing_guarantee="exactly_once" is not possible; '
                'use "at_least_once", or a topology of streamtopo, whose commits are exactly once'
            )
        self._log_thread = LogThread("faust-consumer")
        self._share: frozenset[TopicPartition] = frozenset()
        self._own: frozenset[TopicPartition] = frozenset()
        self._assigned: set[TP] = set()
        self._ends: Mapping[TopicPartition, int] = {}
        self._subscribed = self._resubscribed = False
        self._moves = 0
        self._limit = self.app.conf.broker_max_poll_records or LIMIT

    async def on_start(self) -> None:
        await super().on_start()
        transport: Any = self.transport
        self._log = await self._log_thread.do(transport.open_log)
        self.exit_stack.callback(self._log.close)
        self.exit_stack.callback(self._log_thread.close)
        self._topics = Topics(self.app, self._log)
        reset = self.app.conf.consumer_auto_offset_reset or "earliest"
        self._reader = await self._log_thread.do(Reader, self._log, self.app.conf.id, reset)

    # -- topics

    def topic_partitions(self, topic: str) -> int | None:
        return self._topics.partitions(topic)

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> int | None:
        return self._topics.partition(topic, key) if partition is None else partition

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    # -- the group

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Replies to this worker, and all topics of a client, are read by this process alone, without the group."""
        wanted = {topic: await self._log_thread.do(self._topics.ensure, topic) for topic in topics}
        alone = wanted.keys() if self.app.client_only else wanted.keys() & {self.app.conf.reply_to}
        own = frozenset(TopicPartition(topic, number) for topic in alone for number in range(wanted[topic]))
        await self._move(self._reader.seek, dict.fromkeys(own - self._own, 0))
        self._own = own
        if self.app.client_only:
            self._assigned = set(map(_theirs, own))
        else:
            await self._log_thread.do(self._reader.subscribe, {topic: wanted[topic] for topic in wanted.keys() - alone})
            self._subscribed = self._resubscribed = True

    @Service.task
    async def _follow(self) -> None:
        """Ask for a share only after `subscribe`: a member that asks gets one."""
        while not self.should_stop:
            if self._subscribed:
                share = await self._log_thread.do(self._reader.assignment)
                if self._resubscribed or share != self._share:
                    self._resubscribed = False
                    await self._rebalance(share)
            await self.sleep(LOOK)

    async def _rebalance(self, share: frozenset[TopicPartition]) -> None:
        self.app.on_rebalance_start()
        await self.on_partitions_revoked(set(self._assigned))
        lost, self._share = self._share - share, share
        self._assigned = announce(self.app, map(_theirs, share | self._own), self._topics.ensure)
        await self._move(self._reader.release, lost)
        self.app.consumer_generation_id += 1
        await self.on_partitions_assigned(set(self._assigned), self.app.consumer_generation_id)

    def assignment(self) -> set[TP]:
        return self._assigned

    # -- reading

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> dict[TP, list[Record]]:
        deadline = time.monotonic() + timeout
        while self.flow_active and not self.should_stop and time.monotonic() < deadline:
            moves = self._moves
            partitions = None if active_partitions is None else frozenset(map(_ours, active_partitions))
            fetched = await self._log_thread.do(self._reader.read, self._limit, SLICE, partitions)
            self._ends = fetched.ends
            if moves != self._moves:
                # If records of before a seek came after it, what is between would look like a gap, and be committed.
                await self._log_thread.do(self._reader.put_back, fetched)
            elif fetched.batches:
                return _by_partition(fetched)
        return {}

    def _to_message(self, tp: TP, record: Record) -> ConsumerMessage:
        offset, key, value, timestamp, headers = record
        return ConsumerMessage(
            tp.topic,
            tp.partition,
            offset,
            timestamp / 1000,
            0,
            headers,
            key,
            value,
            None,
            tp=tp,
            generation_id=self.app.consumer_generation_id,
        )

    async def seek_to_committed(self) -> Mapping[TP, int]:
        streams = [partition for partition in self._share if not self._is_changelog_tp(_theirs(partition))]
        committed: Any = await self._move(self._reader.seek_to_committed, streams)
        return {_theirs(partition): offset for partition, offset in committed.items()}

    async def _seek(self, partition: TP, offset: int) -> None:
        await self._move(self._reader.seek, {_ours(partition): offset})

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        for tp, offset in partitions.items():
            self._read_offset[tp] = offset if offset > 0 else None
        await self._move(self._reader.seek, {_ours(tp): offset for tp, offset in partitions.items()})

    async def _move(self, move: Any, where: Any) -> Any:
        self._moves += 1
        return await self._log_thread.do(move, where)

    async def position(self, tp: TP) -> int | None:
        return await self._log_thread.do(self._reader.position, _ours(tp))

    def highwater(self, tp: TP) -> int:
        return self._ends.get(_ours(tp), 0)

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        ends = await self._log_thread.do(self._reader.ends, list(map(_ours, partitions)))
        return {_theirs(partition): end for partition, end in ends.items()}

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        starts = await self._log_thread.do(self._reader.starts, list(map(_ours, partitions)))
        return {_theirs(partition): start for partition, start in starts.items()}

    # -- writing

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        shared = {_ours(tp): offset for tp, offset in offsets.items() if _ours(tp) in self._share}
        refused = await self._log_thread.do(self._reader.commit, shared)
        if refused:
            self.log.warning("Commit refused, its records are read again: %s", refused)
        return not refused

    @Service.task
    async def _clean(self) -> None:
        """Retention and compaction: as there is no broker, the workers do them."""
        while not self.should_stop:
            await self.sleep(CLEANING)
            await self._log_thread.do(self._log.clean)


def _ours(tp: TP) -> TopicPartition:
    return TopicPartition(*tp)


def _theirs(partition: TopicPartition) -> TP:
    return TP(*partition)


def _by_partition(fetched: Fetched) -> dict[TP, list[Record]]:
    found = {}
    for source, columns, offsets, _ in fetched.batches:
        headers = [_valued(some) for some in columns.headers] if columns.headers else [[] for _ in offsets]
        rows = zip(offsets, columns.keys, columns.values, columns.timestamps, headers, strict=True)
        found[_theirs(source)] = list(rows)
    return found


def _valued(headers: Headers) -> list[tuple[str, bytes]]:
    """Faust requires that each has a value."""
    return [(name, value or b"") for name, value in headers]
