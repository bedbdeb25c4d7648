"""What a topic that is created again must have in common with the one that is there."""

from __future__ import annotations

from streamtopo.errors import LogError
from streamtopo.logs import Topic


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
