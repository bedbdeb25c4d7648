"""The consumer of a member: it joins the group, follows what the group assigns, and reads its positions."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from streamtopo.errors import LogError
from streamtopo.logs import Revoking, ignored
from streamtopo.logs.kafka.admin.admin import Admin
from streamtopo.logs.kafka.admin.groups import positions_of
from streamtopo.logs.kafka.errors import PERMANENT, UNDECIDED, ClientErrors, error_of, explained, reason_of
from streamtopo.logs.kafka.group.ownership import Ownership
from streamtopo.logs.kafka.group.reader import GroupReader
from streamtopo.logs.kafka.messages import consumed
from streamtopo.logs.kafka.settings import ClientSettings
from streamtopo.records import Position, TopicPartition

logger = logging.getLogger("streamtopo")

_PLACED_AFTER = 5.0
"""Seconds after which a member without partitions is taken to get none: the newer protocol does not report this."""
_PENDING = 0.3
"""Seconds to wait for positions that the transaction of a dead member may still change; then other tasks get a turn."""


class GroupConsumer:
    """The reader is notified of the client that joined, and of partitions that are taken away."""

    def __init__(
        self,
        settings: ClientSettings,
        admin: Admin,
        group: str,
        topics: Iterable[tuple[str, ...]],
        *,
        address: str,
        reader: GroupReader,
    ) -> None:
        self.group = group
        self.topics = tuple(map(tuple, topics))
        self.ownership = Ownership()
        self._settings = settings
        self._admin = admin
        self._address = address
        self._reader = reader
        self._revoking: Revoking = ignored
        self._failure: BaseException | None = None
        """What `revoking` raised in the middle of a poll."""
        self._join(self._usable_protocol())

    def _usable_protocol(self) -> str:
        """With the newer protocol the timeouts are stored in the cluster, which may refuse low ones."""
        if self._settings.protocol == "classic":
            return "classic"
        refused = self._admin.groups.configure(self.group, self._settings.of_group())
        if refused is not None:
            logger.info("the group uses the timeouts of the cluster, which refused ours: %s", refused)
        return "consumer"

    def _join(self, protocol: str) -> None:
        self.protocol = protocol
        self._joined_at = time.monotonic()
        with explained("be joined"):
            settings = self._settings.member(self.group, protocol, self._address)
            self.client: Any = Consumer(settings | {"error_cb": ClientErrors()})
        self._reader.use(self.client)
        self.subscribe(self.topics)

    def subscribe(self, topics: Iterable[tuple[str, ...]]) -> None:
        self.topics = tuple(map(tuple, topics))
        for names in self.topics:
            self._check_counts(names)
        subscribed = sorted(set(chain.from_iterable(self.topics)))
        with explained("join the group"):
            self.client.subscribe(subscribed, on_assign=self._given, on_revoke=self._revoked, on_lost=self._lost)

    def _check_counts(self, names: tuple[str, ...]) -> None:
        counts = {name: self._admin.topics.count(name) for name in names} if len(names) > 1 else {}
        if len(set(filter(None, counts.values()))) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise LogError(
                "topics that are read together need the same number of partitions on Kafka, whose groups assign each "
                f"topic separately: {listed}; create them again with equal counts, or read each as its own stream and "
                "use .repartition(partitions=…)"
            )

    @property
    def placed(self) -> bool:
        return self.ownership.known or time.monotonic() - self._joined_at > _PLACED_AFTER

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position] | None:
        try:
            found = self.client.committed([ClientPartition(*part) for part in partitions], _PENDING)
        except KafkaException as error:
            if error_of(error).code() in UNDECIDED or error_of(error).retriable():
                return None
            raise LogError(f"the group's positions could not be read: {reason_of(error_of(error))}") from error
        return None if any(place.error is not None for place in found) else positions_of(found)

    def close(self) -> None:
        self._revoking = ignored
        self.client.close()

    # -- a poll, and what the group says in the middle of it

    def poll(self, limit: int, timeout: float, revoking: Revoking) -> list[Any]:
        self._revoking = revoking
        with explained("be read"):
            messages = consumed(self.client, limit, timeout)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return messages

    def handle_error(self, error: Any) -> None:
        """An error that came in place of messages."""
        code = error.code()
        if code == KafkaError._MAX_POLL_EXCEEDED:
            logger.warning(
                "the group took away the tasks of this worker, because one turn took longer than "
                "kafka.max.poll.interval.ms; the worker joins again; use smaller chunks, or a longer interval"
            )
        elif code == KafkaError._FATAL and not self.ownership.known and self._settings.protocol is None:
            self.client.close()
            self._join("classic")  # the cluster does not have the newer protocol
        elif code in PERMANENT or error.fatal():
            raise LogError(f"the group cannot be read: {reason_of(error)}")
        else:
            logger.debug("the client recovers from this by itself: %s", reason_of(error))

    def _given(self, client: Any, partitions: list[Any]) -> None:
        """Start paused: no partition is read before its first seek.

        Each gets a numeric offset: for "end" or "committed" the client would look one up, and then forget the seek.
        """
        starts = self._admin.offsets.starts(_named(partitions))
        places = [ClientPartition(*partition, start) for partition, start in starts.items()]
        if self.protocol == "consumer":
            client.incremental_assign(places)
            self._read_on(client)
        else:
            client.assign(places)
        client.pause(places)
        self.ownership.give(_named(partitions))

    def _read_on(self, client: Any) -> None:
        """Make the client read the other partitions again, by any request to their brokers.

        It stops reading while the group moves partitions, and by itself starts again a second too late.
        """
        with suppress(KafkaException):
            owned = [ClientPartition(*partition, OFFSET_END) for partition in self.ownership.partitions]
            client.offsets_for_times(owned, _PENDING)

    def _revoked(self, client: Any, partitions: list[Any]) -> None:
        revoked = _named(partitions)
        try:
            self._revoking(frozenset(revoked))
        except BaseException as failure:
            self._failure = failure
        self.ownership.revoke(revoked)
        self._reader.forget(revoked)

    def _lost(self, client: Any, partitions: list[Any]) -> None:
        lost = _named(partitions)
        self.ownership.lose(lost)
        self._reader.forget(lost)


def _named(places: Iterable[Any]) -> set[TopicPartition]:
    return {TopicPartition(place.topic, place.partition) for place in places}
