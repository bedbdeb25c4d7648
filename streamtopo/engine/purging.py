"""Deletes from repartition topics what was read and committed: nobody reads it again, and no retention would end it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from streamtopo.engine.task import Task
from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

EVERY = 30.0
"""Seconds between two deletions in a partition."""


class Purging:
    def __init__(self, topology: Topology, log: Log) -> None:
        self._topics = set(map(topology.topic_of, topology.repartitions))
        self._log = log
        self._purged: dict[TopicPartition, float] = {}
        """When each partition was last purged, or first seen."""
        self._refused: set[str] = set()
        """Topics of which the last deletion was."""

    def after_commit(self, tasks: Iterable[Task]) -> None:
        """In one partition at most, so that no commit is far from the next."""
        now = time.monotonic()
        for task in tasks if self._topics else ():
            for partition in task.inputs:
                if partition.topic in self._topics and now - self._purged.setdefault(partition, now) >= EVERY:
                    self._purged[partition] = now
                    self._delete(partition, task.positions()[partition].offset)
                    return

    def _delete(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._log.delete_before(partition, offset)
            self._refused.discard(partition.topic)
        except LogError as error:  # of a leader that moves, or of rights that nobody gave: tried again like any other
            if partition.topic not in self._refused:
                logger.warning("repartition topics grow until something can be deleted from them: %s", error)
            self._refused.add(partition.topic)
