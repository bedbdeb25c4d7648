"""What a member writes, in transactions (exactly once), or as it comes (at least once)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from streamtopo.errors import LogError
from streamtopo.logs import Committed, Outcome
from streamtopo.logs.kafka.admin import places
from streamtopo.logs.kafka.bounded import Call
from streamtopo.logs.kafka.failing import PURGED, Complaints, error_of, explained, reason_of
from streamtopo.logs.kafka.settings import PATIENCE, Settings
from streamtopo.logs.kafka.writer import produce
from streamtopo.records import Columns, Position, TopicPartition

logger = logging.getLogger("streamtopo")

_COMMIT = 30.0
"""Seconds that a commit may take before it is looked at as failed."""
_CONNECTED = 5.0
"""Seconds in which a producer is connected if there is a cluster."""
_STATE = "__transaction_state"
"""The cluster's own topic; any would do."""


class Writes(Protocol):
    def send(self, target: TopicPartition, columns: Columns) -> None: ...
    def announce(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> None: ...
    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> Committed: ...
    def abort(self) -> None: ...
    def settle(self) -> None: ...
    def close(self) -> None: ...


class _Delivered:
    """Where the records of a commit went, as the brokers said."""

    def __init__(self) -> None:
        self.sent: set[TopicPartition] = set()
        self.ends: dict[TopicPartition, int] = {}
        self.failure: str = ""

    def last(self, error: Any, message: Any) -> None:
        """Of several records for a partition."""
        if error is None:
            target = TopicPartition(message.topic(), message.partition())
            self.ends[target] = max(message.offset() + 1, self.ends.get(target, 0))
        else:
            self.other(error, message)

    def other(self, error: Any, message: Any) -> None:
        """Any record: this is called for each, and nearly always there is nothing to it."""
        if error is not None and not self.failure and error.code() not in PURGED:  # those follow from another failure
            target = TopicPartition(message.topic(), message.partition())
            self.failure = f"a record for {target} was not taken: {reason_of(error)}"


class Transactions:
    """One transaction at a time, begun when there is something for it."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """With a transactional id: what another producer began under it is ended now."""
        self._conf = {**conf, "error_cb": Complaints()}
        self._begun = False
        self._broken = ""
        """Why nothing can be added to the transaction any more."""
        self._announcing: Call | None = None
        self._delivered = _Delivered()
        self._renew()

    def send(self, target: TopicPartition, columns: Columns) -> None:
        self.begin()
        if self._broken:
            return
        self._delivered.sent.add(target)
        try:
            produce(self._producer, target, columns, self._delivered.last)
        except KafkaException as error:
            if not over(error_of(error)):
                raise LogError(f"a record cannot be written to {target}: {reason_of(error_of(error))}") from error
            self._broken = reason_of(error_of(error))

    def announce(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> None:
        """The group's coordinator takes them while records are still sent."""
        if positions and not self._broken:
            self.begin()
            group = consumer.consumer_group_metadata()  # while a poll gives partitions back no other thread can ask
            send, offsets = self._producer.send_offsets_to_transaction, places(positions)
            self._announcing = Call(lambda: send(offsets, group, _COMMIT))

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> Committed:
        if not positions and not self._begun:
            return Committed(Outcome.DONE)
        try:
            self.begin()
            if self._announcing is None:
                self.announce(positions, consumer)
            # A position that cannot be sent has not been committed, whatever the reason.
            if not self._known():
                return Committed(Outcome.NOT_DONE, reason="the group's coordinator did not answer")
        except KafkaException as error:
            return self._refused(error, Outcome.NOT_DONE)
        if self._broken:  # the announcement knows better why, if that was it
            return Committed(Outcome.NOT_DONE, reason=self._delivered.failure or self._broken)
        try:
            self._producer.commit_transaction(_COMMIT)
        except KafkaException as error:
            aborted = error_of(error).txn_requires_abort()
            return self._refused(error, Outcome.NOT_DONE if aborted else Outcome.UNKNOWN)
        done = self._delivered
        self._forget()
        while done.sent - done.ends.keys():
            self._producer.poll(0.01)
        return Committed(Outcome.DONE, done.ends)

    def _known(self) -> bool:
        """The call's own timeout does not hold when the group's coordinator went away (librdkafka's issue 5456).

        After the transaction's timeout the cluster has ended it, whatever becomes of the call.
        """
        call, self._announcing = self._announcing, None
        return call is None or call.returned(int(self._conf["transaction.timeout.ms"]) / 1000)

    def abort(self) -> None:
        if not self._begun:
            return
        with suppress(Exception):  # it is to be undone
            self._known()
        self._forget()
        try:
            self._producer.abort_transaction(_COMMIT)
        except KafkaException:  # also where an earlier call has not returned
            self._renew()

    def settle(self) -> None:
        """A new producer of the same id: the cluster ends what the old one left, one way or the other."""
        self._forget()
        self._renew()

    def close(self) -> None:
        self.abort()

    def begin(self) -> None:
        if self._begun:
            return
        try:
            self._producer.begin_transaction()
        except KafkaException:
            self._renew()
            with explained("begin a transaction"):
                self._producer.begin_transaction()
        self._begun = True

    def _forget(self) -> None:
        self._begun, self._broken, self._delivered, self._announcing = False, "", _Delivered(), None

    def _renew(self) -> None:
        with explained("prepare transactions"):
            self._producer = Producer(self._conf)
            with suppress(KafkaException):  # once it is connected; else it tries again only half a second later
                self._producer.list_topics(_STATE, _CONNECTED)
            self._producer.init_transactions(PATIENCE)

    def _refused(self, error: KafkaException, outcome: Outcome) -> Committed:
        with suppress(KafkaException):  # the same again
            self._producer.poll(0)
        return Committed(outcome, reason=self._delivered.failure or reason_of(error_of(error)))


def over(error: Any) -> bool:
    """Whether nothing can be added to the transaction any more, as the cluster ended it."""
    code = error.code()  # the fatal flag is lost where a record is refused for an earlier error
    return bool(error.fatal() or error.txn_requires_abort() or code in (KafkaError._STATE, KafkaError._FATAL))


class Deliveries:
    """No transactions: what was sent may be repeated after a failure, and is seen before the commit."""

    def __init__(self, settings: Settings) -> None:
        with explained("be written to"):
            self._producer = Producer(settings.producer() | {"error_cb": Complaints()})
        self._delivered = _Delivered()

    def announce(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> None:
        """They are true when all was delivered."""

    def send(self, target: TopicPartition, columns: Columns) -> None:
        with explained(f"write to {target}"):
            produce(self._producer, target, columns, self._delivered.last, others=self._delivered.other)
        self._producer.poll(0)

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> Committed:
        left = self._producer.flush(_COMMIT)
        if left or self._delivered.failure:
            return Committed(Outcome.NOT_DONE, reason=self._delivered.failure or f"{left} records were not taken")
        try:
            if positions:
                consumer.commit(offsets=places(positions), asynchronous=False)
        except KafkaException as error:
            return Committed(Outcome.UNKNOWN, reason=reason_of(error_of(error)))
        done, self._delivered = self._delivered, _Delivered()
        return Committed(Outcome.DONE, done.ends)

    def abort(self) -> None:
        self._producer.purge()
        self._producer.flush(_COMMIT)
        self._delivered = _Delivered()

    def settle(self) -> None:
        self.abort()

    def close(self) -> None:
        self.abort()
