"""A worker's place in a group of the cluster: one consumer and one producer, used by one thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Container, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from streamtopo.errors import LogError
from streamtopo.logs import Committed, Outcome, Revoking, ignored
from streamtopo.logs.kafka.admin import Admin, positions_of
from streamtopo.logs.kafka.failing import (
    PERMANENT,
    UNDECIDED,
    Complaints,
    absent,
    error_of,
    explained,
    outside,
    reason_of,
)
from streamtopo.logs.kafka.messages import at_end, batch_of, consumed, runs
from streamtopo.logs.kafka.settings import Settings
from streamtopo.logs.kafka.slots import Slot
from streamtopo.logs.kafka.transactions import Deliveries, Transactions, Writes
from streamtopo.records import Batch, Columns, Position, TopicPartition

logger = logging.getLogger("streamtopo")

_SOON = 10.0
_UNTOLD = 5.0
"""Seconds after which a member that was given nothing is taken to get nothing: the newer protocol does not tell it."""
_PENDING = 0.3
"""Seconds to wait for positions that a dead member's transaction may still change, before other tasks get a turn."""


class KafkaMember:
    def __init__(
        self,
        settings: Settings,
        admin: Admin,
        group: str,
        topics: Iterable[tuple[str, ...]],
        *,
        address: str,
        exactly_once: bool,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._group = group
        self._address = address
        self._topics = tuple(map(tuple, topics))
        self._owned: set[TopicPartition] = set()
        self._untold: set[TopicPartition] = set()
        """What was lost, until the worker has been told."""
        self._lost: set[TopicPartition] = set()
        """What was lost, maybe to be given again, until the work on it is closed: it must not be committed."""
        self._next: dict[TopicPartition, int] = {}
        self._at_end: set[TopicPartition] = set()
        self._backlog: dict[TopicPartition, list[Any]] = {}
        """Messages of partitions that were paused when they came."""
        self._held: set[TopicPartition] = set()
        self._revoking: Revoking = ignored
        self._failure: BaseException | None = None
        self._left = False
        self._counts: dict[str, int] = {}
        self._slot = Slot(group) if exactly_once else None
        self._writes: Writes = Transactions(settings.producer(self._slot.id)) if self._slot else Deliveries(settings)
        self._known = False
        """Whether the group has given us anything yet."""
        self._join(self._usable_protocol())

    @property
    def id(self) -> str:
        return str(self._consumer.memberid() or "")

    def _usable_protocol(self) -> str:
        """The newer one keeps its timeouts in the cluster, which may have a lower limit for them."""
        if self._settings.protocol == "classic":
            return "classic"
        refused = self._admin.configure_group(self._group, self._settings.of_group())
        if refused is not None:
            logger.info("the group's timeouts are the cluster's own: %s", refused)
        return "consumer"

    def _join(self, protocol: str) -> None:
        self._protocol = protocol
        self._joined_at = time.monotonic()
        with explained("be joined"):
            settings = self._settings.member(self._group, protocol, self._address)
            self._consumer = Consumer(settings | {"error_cb": Complaints()})
        self.subscribe(self._topics)

    # -- the group

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self._topics = tuple(map(tuple, topics))
        for names in self._topics:
            self._check_counts(names)
        subscribed = sorted(set(chain.from_iterable(self._topics)))
        with explained("join the group"):
            self._consumer.subscribe(subscribed, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._taken)

    def _check_counts(self, names: tuple[str, ...]) -> None:
        counts = {name: self._admin.count(name) for name in names} if len(names) > 1 else {}
        if len(set(filter(None, counts.values()))) > 1:
            said = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise LogError(
                f"topics that are read together need the same number of partitions on Kafka, whose groups share out "
                f"each topic by itself: {said}; create them again with equal counts, or bring "
                "them to the same number with .repartition(partitions=…), each as a stream of its own"
            )

    def assignment(self) -> frozenset[TopicPartition]:
        untold, self._untold = self._untold, set()
        return frozenset(self._owned - untold)

    @property
    def placed(self) -> bool:
        return self._known or time.monotonic() - self._joined_at > _UNTOLD

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """They may be another member's already."""
        self._lost.difference_update(partitions)

    # -- reading

    def poll(
        self,
        limit: int,
        timeout: float,
        paused: Container[TopicPartition] = (),
        revoking: Revoking = ignored,
    ) -> list[Batch]:
        waiting = [part for part in self._backlog if part not in paused and part in self._next]
        if waiting:
            return [self._caught_up(part, limit) for part in waiting]
        self._revoking = revoking
        with explained("be read"):
            messages = consumed(self._consumer, limit, timeout)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        batches = [self._batch(source, run, limit, paused) for source, run in runs(messages)]
        return [batch for batch in batches if batch is not None]

    def _batch(
        self, source: TopicPartition, run: list[Any], limit: int, paused: Container[TopicPartition]
    ) -> Batch | None:
        error = run[0].error()
        if error is not None and not at_end(run[0]):
            self._met(source, error)
            return None
        if source not in self._next:
            return None
        if error is not None:
            self._at_end.add(source)
            following = run[0].offset()
            if source in self._backlog or following <= self._next[source]:
                return None
            self._next[source] = following
            return Batch(source, Columns([], [], []), [], following)
        self._at_end.discard(source)
        if source in paused:
            self._keep(source, run, limit)
            return None
        batch = batch_of(source, run)
        self._next[source] = batch.next_offset
        return batch

    def _keep(self, source: TopicPartition, run: list[Any], limit: int) -> None:
        kept = self._backlog.setdefault(source, [])
        kept.extend(run)
        if len(kept) > limit and source not in self._held:
            self._consumer.pause([Place(*source)])
            self._held.add(source)

    def _caught_up(self, source: TopicPartition, limit: int) -> Batch:
        kept = self._backlog.pop(source)
        if len(kept) > limit:
            self._backlog[source] = kept[limit:]
        elif source in self._held:
            self._held.discard(source)
            self._consumer.resume([Place(*source)])
        batch = batch_of(source, kept[:limit])
        self._next[source] = batch.next_offset
        return batch

    def _met(self, source: TopicPartition, error: Any) -> None:
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET:
            if source in self._next:
                self._check_offset(source, self._next[source])
        elif code == KafkaError._MAX_POLL_EXCEEDED:
            logger.warning(
                "the group took this worker's tasks away, as a turn took longer than kafka.max.poll.interval.ms; it "
                "joins again; use smaller chunks, or a longer interval"
            )
        elif code == KafkaError._FATAL and not self._known and self._settings.protocol is None:
            self._consumer.close()
            self._join("classic")  # the cluster does not have the newer one
        elif code in PERMANENT or error.fatal():
            raise LogError(f"the group cannot be read: {reason_of(error)}")
        else:
            logger.debug("the client goes on by itself: %s", reason_of(error))

    def _check_offset(self, source: TopicPartition, offset: int) -> None:
        start, end = self._admin.start(source), self._admin.end(source)
        if not start <= offset <= end:
            raise outside(source, offset, start, end)
        self.seek(source, offset)  # what was out of range is where it was before the first seek

    def ends(self) -> Mapping[TopicPartition, int]:
        return {partition: self._end(partition) for partition in self._next}

    def knows_end(self, partition: TopicPartition) -> bool:
        return partition in self._at_end or self._high_watermark(partition) is not None

    def _end(self, partition: TopicPartition) -> int:
        if partition in self._at_end and partition not in self._backlog:
            return self._next[partition]
        known = self._high_watermark(partition)
        if known is None:  # there may be more; the client learns it soon
            return self._next[partition] + 1
        return max(self._next[partition], known)

    def _high_watermark(self, partition: TopicPartition) -> int | None:
        """As the brokers said it last; None before the first answer since the partition was assigned."""
        known = self._consumer.get_watermark_offsets(Place(*partition), cached=True)
        return None if known is None or known[1] < 0 else known[1]

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position] | None:
        try:
            found = self._consumer.committed([Place(*part) for part in partitions], _PENDING)
        except KafkaException as error:
            if error_of(error).code() in UNDECIDED or error_of(error).retriable():
                return None
            raise LogError(f"the group's positions could not be read: {reason_of(error_of(error))}") from error
        return None if any(place.error is not None for place in found) else positions_of(found)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition not in self._owned:
            return
        self._next[partition] = offset
        self._backlog.pop(partition, None)
        self._held.discard(partition)
        self._at_end.discard(partition)
        deadline = time.monotonic() + _SOON
        while True:
            try:
                self._consumer.seek(Place(*partition, offset))
                self._consumer.resume([Place(*partition)])
                return
            except KafkaException as error:
                # What was assigned a moment ago takes a moment to be there.
                if error_of(error).code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise LogError(
                        f"cannot go to offset {offset} of {partition}: {reason_of(error_of(error))}"
                    ) from error
                time.sleep(0.002)

    # -- writing

    def send(self, target: TopicPartition, columns: Columns) -> None:
        if target.partition >= self._counts.get(target.topic, 0):
            self._counts[target.topic] = self._admin.count(target.topic)
            if target.partition >= self._counts[target.topic]:
                raise absent(target)
        self._writes.send(target, columns)

    def announce(self, positions: Mapping[TopicPartition, Position]) -> None:
        if not self._not_ours(positions):
            self._writes.announce(positions, self._consumer)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> Committed:
        if others := self._not_ours(positions):
            return Committed(Outcome.NOT_DONE, reason=f"{others[0]} belongs to another member by now")
        return self._writes.commit(positions, self._consumer)

    def _not_ours(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [partition for partition in partitions if partition not in self._owned or partition in self._lost]

    def abort(self) -> None:
        self._writes.abort()

    def settle(self) -> None:
        self._writes.settle()

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._revoking = ignored
            self._writes.close()
            if self._slot is not None:
                self._slot.free()
            self._consumer.close()

    # -- what the group says, in the middle of a poll

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """Nothing is read before its first seek.

        The offset is a number, as the client looks one up for `end` or `committed` and then forgets the seek.
        """
        starts = self._admin.starts(_named(partitions))
        places = [Place(*partition, start) for partition, start in starts.items()]
        if self._protocol == "consumer":
            consumer.incremental_assign(places)
            self._read_on(consumer)
        else:
            consumer.assign(places)
        consumer.pause(places)
        self._owned |= _named(partitions)
        self._known = True

    def _read_on(self, consumer: Any) -> None:
        """Whatever is asked of the brokers that have our other partitions makes the client read from them again.

        It does not while the group moves partitions, and notices by itself only a second later that it may.
        """
        with suppress(KafkaException):
            consumer.offsets_for_times([Place(*partition, OFFSET_END) for partition in self._owned], _PENDING)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        revoked = _named(partitions)
        try:
            self._revoking(frozenset(revoked))
        except BaseException as failure:
            self._failure = failure
        self._forget(revoked)

    def _taken(self, consumer: Any, partitions: list[Any]) -> None:
        taken = _named(partitions)
        self._lost |= taken & self._owned
        self._untold |= taken & self._owned
        self._forget(taken)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._owned.difference_update(partitions)
        self._held.difference_update(partitions)
        self._at_end.difference_update(partitions)
        for partition in partitions:
            self._next.pop(partition, None)
            self._backlog.pop(partition, None)


def _named(places: Iterable[Any]) -> set[TopicPartition]:
    return {TopicPartition(place.topic, place.partition) for place in places}
