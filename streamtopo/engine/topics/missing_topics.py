"""The sources and sinks that do not exist when a worker starts: created, waited for, or all named in one error."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from streamtopo.engine.plan import absent, missing
from streamtopo.logs import Log, Topic
from streamtopo.settings.config import WorkerConfig
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

NEW_PARTITIONS = 4
"""Of a missing topic that is created though nobody has said how: only on a log that is this machine's own."""
_PAUSE = 0.1


class MissingTopics:
    def __init__(self, topology: Topology, log: Log, config: WorkerConfig) -> None:
        self._topology = topology
        self._log = log
        self._config = config
        self.partitions = _partitions_of_new(log, config)
        """How many a topic is created with; 0 if none may be created."""

    def create(self) -> dict[str, int]:
        """Create them, or raise an error that names all of them. Return their numbers of partitions."""
        gone = self._missing() if self.partitions else self._still_missing()
        if gone and not self.partitions:
            raise absent(gone, may_create=not self._config.no_create)
        counts = self._counts(gone)
        for name, kind in gone.items():
            self._log.create(Topic(name, counts[name]))
            logger.info('created %s topic "%s" with %d partitions', kind, name, counts[name])
        return counts

    def planned(self) -> dict[str, int]:
        """The topics that `create` would create now, with their numbers of partitions."""
        return self._counts(self._missing()) if self.partitions else {}

    def _counts(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self._count(name) for name in names}

    def _missing(self) -> dict[str, str]:
        return missing(self._topology, self._log.topics())

    def _still_missing(self) -> dict[str, str]:
        """The topics that are still missing after the time to wait for them."""
        deadline = time.monotonic() + self._config.wait_for_topics / 1000
        waited_for: dict[str, str] = {}
        while (gone := self._missing()) and time.monotonic() < deadline:
            if gone != waited_for:
                logger.info("waiting for %s", ", ".join(f'{kind} topic "{name}"' for name, kind in gone.items()))
                waited_for = gone
            time.sleep(_PAUSE)
        return gone

    def _count(self, name: str) -> int:
        """As many as the topics that a step with state reads together with it."""
        known = _known_counts(self._topology, self._log.topics())
        for subtopology in self._topology.subtopologies():
            read = [self._topology.topic_of(topic) for source in subtopology.sources for topic in source.topics]
            if subtopology.stores and name in read:
                return next((known[topic] for topic in read if topic in known), self.partitions)
        return self.partitions


def _partitions_of_new(log: Log, config: WorkerConfig) -> int:
    if config.no_create:
        return 0
    if config.create_topics is not None:
        return config.create_topics
    return NEW_PARTITIONS if log.one_machine and not config.wait_for_topics else 0


def _known_counts(topology: Topology, existing: Mapping[str, Topic]) -> dict[str, int]:
    declared = {topology.topic_of(name): wanted.partitions for name, wanted in topology.repartitions.items()}
    return {name: topic.partitions for name, topic in existing.items()} | {
        name: partitions for name, partitions in declared.items() if partitions is not None
    }
