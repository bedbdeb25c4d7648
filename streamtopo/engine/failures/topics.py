"""The topics for dead letters that an application may need."""

from __future__ import annotations

from collections.abc import Iterator

from streamtopo.engine.plan import AFTER
from streamtopo.settings.on_error import DeadLetter, Policy, Retry
from streamtopo.topology import Topology
from streamtopo.windows import FOREVER

CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime", AFTER: str(FOREVER)}
"""They are kept until they are purged. Letters have the times of their records, and Kafka goes by these: with a limit,
the letters of old records would be deleted at once."""


def dead_letter_topics(topology: Topology, option: Policy | None, usual: str) -> set[str]:
    """Those that are known before anything fails; `usual` is the one of the application."""
    policies = [option or topology.on_error, *(node.on_error for node in topology.nodes.values())]
    return {topic or usual for policy in policies for topic in _topics(policy)}


def _topics(policy: Policy | None) -> Iterator[str | None]:
    """None for the usual one; a function may choose it."""
    match policy:
        case Retry(then=then):
            yield from _topics(then)
        case DeadLetter(topic=topic):
            yield topic
        case _ if callable(policy):
            yield None
