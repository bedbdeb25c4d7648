"""Deletes records from repartition topics after they were read and committed: nothing else would delete them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from streamtopo.engine.task.task import Task
from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

EVERY = 30.0
"""Seconds between two deletions in a partition."""


class Purging:
    def __init__(self, topology: Topology, log: Log, now: Callable[[], float]) -> None:
        self._topics = set(map(topology.topic_of, topology.repartitions))
        self._log = log
        self._now = now
        self._purged: dict[TopicPartition, float] = {}
        """When each partition was last purged, or first seen."""
        self._refused: set[str] = set()
        """Topics whose last deletion was refused."""

    def after_commit(self, tasks: Iterable[Task]) -> None:
        """Delete in one partition at most, so that the next commit is not delayed."""
        now = self._now()
        for task in tasks if self._topics else ():
            for partition in task.inputs:
                if partition.topic in self._topics and now - self._purged.setdefault(partition, now) >= EVERY * 1000:
                    self._purged[partition] = now
                    self._delete(partition, task.progress.places[partition].offset)
                    return

    def _delete(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._log.delete_before(partition, offset)
            self._refused.discard(partition.topic)
        except LogError as error:  # a leader moves, or rights are missing; it is tried again like any other
            if partition.topic not in self._refused:
                logger.warning("repartition topics grow until records can be deleted from them: %s", error)
            self._refused.add(partition.topic)
