"""The headers of dead letters as Kafka Streams and streamtopo, Kafka Connect, and Spring Kafka write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamtopo.dead_letters import headers


class Family(NamedTuple):
    """What writes dead letters with the same headers."""

    prefixes: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    """For each field of a Letter, the headers that may have it: the first one that is there counts."""
    binary: bool = False
    """Numbers are big-endian integers of 4 or 8 bytes, not text."""

    def number(self, data: bytes | None) -> int | None:
        if data is None:
            return None
        try:
            return int.from_bytes(data, "big", signed=True) if self.binary else int(data)
        except ValueError:
            return None


_STREAMS = Family(
    (headers.STREAMS, headers.OWN),
    {
        "exception": (headers.EXCEPTION,),
        "message": (headers.MESSAGE,),
        "stacktrace": (headers.STACKTRACE,),
        "topic": (headers.TOPIC,),
        "partition": (headers.PARTITION,),
        "offset": (headers.OFFSET,),
        "node": (headers.NODE,),
        "stage": (headers.STAGE,),
        "task": (headers.TASK,),
        "application": (headers.APPLICATION,),
        "attempts": (headers.ATTEMPTS,),
        "place": (headers.PLACE,),
        "cut": (headers.CUT,),
        "call": (headers.CALL,),
    },
)
_CONNECT = Family(
    ("__connect.errors.",),
    {
        "exception": ("__connect.errors.exception.class.name",),
        "message": ("__connect.errors.exception.message",),
        "stacktrace": ("__connect.errors.exception.stacktrace",),
        "topic": ("__connect.errors.topic",),
        "partition": ("__connect.errors.partition",),
        "offset": ("__connect.errors.offset",),
        "node": ("__connect.errors.class.name",),
        "stage": ("__connect.errors.stage",),
        "task": ("__connect.errors.task.id",),
        "application": ("__connect.errors.connector.name",),
    },
)
_SPRING = Family(
    ("kafka_dlt-",),
    {
        # Spring wraps what a listener raises in an exception of its own.
        "exception": (
            "kafka_dlt-exception-cause-fqcn",
            "kafka_dlt-exception-fqcn",
            "kafka_dlt-key-exception-fqcn",
        ),
        "message": ("kafka_dlt-exception-message", "kafka_dlt-key-exception-message"),
        "stacktrace": ("kafka_dlt-exception-stacktrace", "kafka_dlt-key-exception-stacktrace"),
        "topic": ("kafka_dlt-original-topic",),
        "partition": ("kafka_dlt-original-partition",),
        "offset": ("kafka_dlt-original-offset",),
        "timestamp": ("kafka_dlt-original-timestamp",),
        "application": ("kafka_dlt-original-consumer-group",),
    },
    binary=True,
)
FAMILIES = (_STREAMS, _CONNECT, _SPRING)
NO_FAMILY = Family((), {})
"""Of a record without any of these headers."""


def family_of(names: Iterable[str]) -> Family:
    """The family of the last of these header names that has one: each writer adds its headers after all others."""
    last = NO_FAMILY
    for name in names:
        last = next((family for family in FAMILIES if name.startswith(family.prefixes)), last)
    return last
