"""Errors of the client as errors that say where, what, and what to do next."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamtopo.errors import LogError
from streamtopo.records import TopicPartition

logger = logging.getLogger("streamtopo")

NO_SUCH = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
MOVING = {
    KafkaError._NOENT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
AWAY = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
"""The cluster cannot be reached for now: send the request again."""
PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
UNDECIDED = AWAY | {
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
}
"""The positions of the group cannot be read yet: send the request again."""
PERMANENT = {
    KafkaError._FATAL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.GROUP_MAX_SIZE_REACHED,
}
_HINTS = {
    KafkaError._AUTHENTICATION: "set kafka.sasl.username and kafka.sasl.password, and kafka.sasl.mechanism",
    KafkaError._SSL: "set kafka.security.protocol and kafka.ssl.ca.location",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise the topic's max.message.bytes, and kafka.message.max.bytes in the URL; if "
    "only several records together are too large, lower kafka.batch.size",
    KafkaError._FENCED: "commit more often than kafka.transaction.timeout.ms",
    KafkaError.INVALID_TIMESTAMP: "the topic refuses timestamps this far from the broker's clock: raise its "
    'message.timestamp.after.max.ms, or skip such records with max_ahead=MaxAhead(then="skip") at their source',
    KafkaError._TIMED_OUT: "check that the brokers are up",
    KafkaError._TRANSPORT: "check that the brokers are up",
    KafkaError._ALL_BROKERS_DOWN: "check that the brokers are up",
}
_REFUSALS = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_BETWEEN_WARNINGS = 30.0


def error_of(exception: KafkaException) -> Any:
    return exception.args[0]


def reason_of(error: Any) -> str:
    hint = _HINTS.get(error.code())
    return f"{error.name()}: {error.str()}" + (f"; {hint}" if hint else "")


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raise errors of the client as LogErrors; `doing` is what was tried, such as "list the topics"."""
    try:
        yield
    except KafkaException as error:
        raise LogError(f"Kafka could not {doing}: {reason_of(error_of(error))}") from error


def absent(partition: TopicPartition) -> LogError:
    return LogError(f"partition {partition} does not exist; create the topic first")


def outside(partition: TopicPartition, offset: int, start: int, end: int) -> LogError:
    return LogError(
        f"offset {offset} of {partition} is not in the log (it has {start} to {end}); "
        "reset the group's position to one of these (streamtopo reset)"
    )


class ClientErrors:
    """For `error_cb`: warns from time to time that no broker can be reached. Calls report all other errors."""

    def __init__(self) -> None:
        self._next = 0.0
        self.refused: Any = None
        """Why a broker refused the connection: calls only say that no broker answered."""

    def __call__(self, error: Any) -> None:
        if error.code() in _REFUSALS:
            self.refused = error
        if error.code() == KafkaError._ALL_BROKERS_DOWN and time.monotonic() >= self._next:
            self._next = time.monotonic() + _BETWEEN_WARNINGS
            logger.warning("no broker of the cluster can be reached; waiting until one can")
