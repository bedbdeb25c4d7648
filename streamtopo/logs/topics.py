"""Checks of a topic that is created: whether it can be, and whether it equals one that exists."""

from __future__ import annotations

from streamtopo.errors import LogError
from streamtopo.logs import Topic

MOST_PARTITIONS = 10_000
"""The maximum for a new topic. Each partition costs every log and worker something; a typo must not block them."""


def check_new(topic: Topic) -> None:
    if not 1 <= topic.partitions <= MOST_PARTITIONS:
        raise LogError(
            f'topic "{topic.name}" cannot have {topic.partitions:,} partitions; give it 1 to {MOST_PARTITIONS:,}: '
            "as many as the tasks that run at the same time"
        )


def check_equal(existing: Topic, wanted: Topic) -> None:
    if existing.partitions != wanted.partitions:
        raise LogError(
            f'topic "{wanted.name}" exists with {existing.partitions} partitions, not {wanted.partitions}; '
            f"delete it first, or create it with {existing.partitions}"
        )
    if dict(existing.config) != dict(wanted.config):
        raise LogError(
            f'topic "{wanted.name}" exists with the config {dict(existing.config)}, not {dict(wanted.config)}, and '
            "that cannot be changed; give the same config, or delete the topic first"
        )
