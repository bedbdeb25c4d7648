"""What a member writes: in transactions (exactly once), or without them (at least once)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from streamtopo.errors import LogError, RecordTooLarge
from streamtopo.logs import CommitResult, Outcome
from streamtopo.logs.kafka.admin.groups import client_partitions
from streamtopo.logs.kafka.errors import PURGED, ClientErrors, error_of, explained, reason_of
from streamtopo.logs.kafka.group.background_call import BackgroundCall
from streamtopo.logs.kafka.settings import PATIENCE, ClientSettings
from streamtopo.logs.kafka.writer import produce
from streamtopo.records import Columns, Position, TopicPartition

logger = logging.getLogger("streamtopo")

_COMMIT = 30.0
"""Seconds after which a commit is taken to have failed."""
_CONNECTED = 5.0
"""Seconds in which a producer connects if the cluster is up."""
_STATE = "__transaction_state"
"""An internal topic of the cluster; any other would do."""


class GroupWriter(Protocol):
    def send(self, target: TopicPartition, columns: Columns) -> None: ...
    def announce(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> None: ...
    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> CommitResult: ...
    def abort(self) -> None: ...
    def settle(self) -> None: ...
    def close(self) -> None: ...


class _Delivered:
    """What the brokers reported about the records of a commit."""

    def __init__(self) -> None:
        self.sent: set[TopicPartition] = set()
        self.ends: dict[TopicPartition, int] = {}
        self.failure: str = ""
        self.too_large: str | None = None
        """The topic of a record that was refused as too large."""

    def last(self, error: Any, message: Any) -> None:
        """Called for the last record of a chunk for a partition."""
        if error is None:
            target = TopicPartition(message.topic(), message.partition())
            self.ends[target] = max(message.offset() + 1, self.ends.get(target, 0))
        else:
            self.other(error, message)

    def other(self, error: Any, message: Any) -> None:
        """Called for each record; nearly always there is nothing to do."""
        if error is not None and not self.failure and error.code() not in PURGED:  # those follow from another failure
            target = TopicPartition(message.topic(), message.partition())
            self.failure = f"a record for {target} was not written: {reason_of(error)}"
            self.too_large = target.topic if error.code() == KafkaError.MSG_SIZE_TOO_LARGE else None

    def check_size(self) -> None:
        if self.too_large is not None:
            raise RecordTooLarge(self.failure, self.too_large)


class TransactionalWriter:
    """One transaction at a time, which begins when there is something to write."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` has a transactional id: an open transaction of another producer with this id is ended now."""
        self._conf = {**conf, "error_cb": ClientErrors()}
        self._begun = False
        self._broken = ""
        """Why the transaction cannot continue; empty if it can."""
        self._announcing: BackgroundCall | None = None
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
                raise _unwritten(target, error) from error
            self._broken = reason_of(error_of(error))

    def announce(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> None:
        """The coordinator of the group stores them while records are still sent."""
        if positions and not self._broken:
            self.begin()
            group = consumer.consumer_group_metadata()  # not in the thread: it would block while partitions are revoked
            send, offsets = self._producer.send_offsets_to_transaction, client_partitions(positions)
            self._announcing = BackgroundCall(lambda: send(offsets, group, _COMMIT))

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> CommitResult:
        if not positions and not self._begun:
            return CommitResult(Outcome.DONE)
        try:
            self.begin()
            if self._announcing is None:
                self.announce(positions, consumer)
            # If the positions could not be sent, nothing was committed, whatever the reason.
            if not self._known():
                return CommitResult(Outcome.NOT_DONE, reason="the group's coordinator did not answer")
        except KafkaException as error:
            check_length(error_of(error), positions)
            return self._refused(error, Outcome.NOT_DONE)
        if self._broken:  # checked only now: if the announcement failed, it has raised a better reason
            self._delivered.check_size()
            return CommitResult(Outcome.NOT_DONE, reason=self._delivered.failure or self._broken)
        try:
            self._producer.commit_transaction(_COMMIT)
        except KafkaException as error:
            aborted = error_of(error).txn_requires_abort()
            return self._refused(error, Outcome.NOT_DONE if aborted else Outcome.UNKNOWN)
        done = self._delivered
        self._forget()
        while done.sent - done.ends.keys():
            self._producer.poll(0.01)
        return CommitResult(Outcome.DONE, done.ends)

    def _known(self) -> bool:
        """Whether the coordinator has the positions.

        The timeout of the call does not work if the coordinator went away (issue 5456 of librdkafka). After the
        timeout of the transaction the cluster has ended it, whether or not the call returns.
        """
        call, self._announcing = self._announcing, None
        return call is None or call.returned(int(self._conf["transaction.timeout.ms"]) / 1000)

    def abort(self) -> None:
        if not self._begun:
            return
        with suppress(Exception):  # a failure does not matter: the transaction is undone
            self._known()
        self._forget()
        try:
            self._producer.abort_transaction(_COMMIT)
        except KafkaException:  # also where an earlier call has not returned
            self._renew()

    def settle(self) -> None:
        """With a new producer of the same id the cluster completes or aborts what the old one left."""
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
            with suppress(KafkaException):  # to connect first: else `init_transactions` retries after half a second
                self._producer.list_topics(_STATE, _CONNECTED)
            self._producer.init_transactions(PATIENCE)

    def _refused(self, error: KafkaException, outcome: Outcome) -> CommitResult:
        with suppress(KafkaException):  # the same error again
            self._producer.poll(0)
        self._delivered.check_size()
        return CommitResult(outcome, reason=self._delivered.failure or reason_of(error_of(error)))


def _unwritten(target: TopicPartition, error: KafkaException) -> LogError:
    text = f"a record cannot be written to {target}: {reason_of(error_of(error))}"
    too_large = error_of(error).code() == KafkaError.MSG_SIZE_TOO_LARGE
    return RecordTooLarge(text, target.topic) if too_large else LogError(text)


def over(error: Any) -> bool:
    """Whether the transaction cannot continue, as the cluster ended it."""
    code = error.code()  # the fatal flag is missing if a record is refused for an earlier error
    return bool(error.fatal() or error.txn_requires_abort() or code in (KafkaError._STATE, KafkaError._FATAL))


def check_length(error: Any, positions: Mapping[TopicPartition, Position]) -> None:
    """Raise if a position is too long for the brokers: later commits would be refused, too."""
    if error.code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
        length, partition = max((len(position.metadata), partition) for partition, position in positions.items())
        raise LogError(
            f"Kafka refuses the position of {partition}: what the task remembers with it has {length:,} characters, as "
            "many of its operators have clocks; raise offset.metadata.max.bytes of the brokers (4,096 by default), or "
            "divide the task: repartition() starts another one"
        )


class AtLeastOnceWriter:
    """Without transactions: records may be repeated after a failure, and are visible before the commit."""

    def __init__(self, settings: ClientSettings) -> None:
        with explained("be written to"):
            self._producer = Producer(settings.producer() | {"error_cb": ClientErrors()})
        self._delivered = _Delivered()

    def announce(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> None:
        """They are committed only after all records were delivered."""

    def send(self, target: TopicPartition, columns: Columns) -> None:
        try:
            produce(self._producer, target, columns, self._delivered.last, others=self._delivered.other)
        except KafkaException as error:
            raise _unwritten(target, error) from error
        self._producer.poll(0)

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Any) -> CommitResult:
        left = self._producer.flush(_COMMIT)
        self._delivered.check_size()
        if left or self._delivered.failure:
            return CommitResult(Outcome.NOT_DONE, reason=self._delivered.failure or f"{left} records were not written")
        try:
            if positions:
                consumer.commit(offsets=client_partitions(positions), asynchronous=False)
        except KafkaException as error:
            check_length(error_of(error), positions)
            return CommitResult(Outcome.UNKNOWN, reason=reason_of(error_of(error)))
        done, self._delivered = self._delivered, _Delivered()
        return CommitResult(Outcome.DONE, done.ends)

    def abort(self) -> None:
        """Records may be written twice, so what was sent is not taken back: to purge it would reach later records."""
        self._producer.flush(_COMMIT)
        self._delivered = _Delivered()

    def settle(self) -> None:
        self.abort()

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(_COMMIT)
