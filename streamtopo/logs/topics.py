"""What a new topic may be, and what one that is created again must have in common with the one that is there."""

from __future__ import annotations

from streamtopo.errors import LogError
from streamtopo.logs import Topic

MOST_PARTITIONS = 10_000
"""Of a new topic: each costs every log, and every worker, something, and a mistyped number is not to block them."""


def check_new(topic: Topic) -> None:
    if not 1 <= topic.partitions <= MOST_PARTITIONS:
        raise LogError(
            f'topic "{topic.name}" cannot have {topic.partitions:,} partitions; give it 1 to {MOST_PARTITIONS:,}: '
            "as many as tasks are to work at the same time"
        )


def check_equal(existing: Topic, wanted: Topic) -> None:
    if existing.partitions != wanted.partitions:
        raise LogError(
            f'topic "{wanted.name}" exists with {existing.partitions} partitions, not {wanted.partitions}; '
            "delete it first or ask for as many as it has"
        )
    if dict(existing.config) != dict(wanted.config):
        raise LogError(
            f'topic "{wanted.name}" exists with the config {dict(existing.config)}, not {dict(wanted.config)}, and '
            "that cannot be changed; ask for the same, or delete the topic first"
        )
