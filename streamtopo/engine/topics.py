"""The topics of one topology on one log: planned, created where they are internal, and looked at again for patterns."""

from __future__ import annotations

import logging
import time

from streamtopo.config import WorkerConfig
from streamtopo.engine.fingerprint import compare, fingerprint, note_of, text_of
from streamtopo.engine.plan import Plan, absent, missing, plan
from streamtopo.errors import PartitionError
from streamtopo.logs import Log, Topic
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

_BETWEEN_CHECKS = 1.0
"""Seconds between two looks whether the topics are still there."""


class Topics:
    def __init__(self, topology: Topology, log: Log, config: WorkerConfig) -> None:
        self._topology = topology
        self._log = log
        self._config = config
        self._counts: dict[str, int] = {}
        self._checked = 0.0
        self.plan = self._prepare()

    def refresh(self) -> bool:
        """Plan anew if a source has a pattern and there are other topics than before; true if so."""
        if time.monotonic() - self._checked > _BETWEEN_CHECKS:
            self.check()
        patterns = any(source.pattern for source in self._topology.sources)
        if not patterns or self._log.topics().keys() == self._planned_for:
            return False
        self.plan = self._prepare()
        return True

    def check(self) -> None:
        """A topic that is gone leaves nothing to do, which would look like having caught up."""
        self._checked = time.monotonic()
        existing = self._log.topics()
        for name, (kind, id) in self._used.items():
            if name not in existing or existing[name].id != id:
                raise _deleted(kind, name, again=name in existing)

    def partitions(self, topic: str) -> int:
        if topic not in self._counts:
            if self._config.create_topics and topic not in self._log.topics():
                self._log.create(Topic(topic, self._config.create_topics))
            self._counts = {name: known.partitions for name, known in self._log.topics().items()}
        if topic not in self._counts:
            raise PartitionError(
                f'topic "{topic}" does not exist; create it first: streamtopo topics create {topic} --partitions 4'
            )
        return self._counts[topic]

    def _prepare(self) -> Plan:
        """Plan, create what is missing, and compare with what an earlier version left behind."""
        self._create_missing()
        existing = dict(self._log.topics())
        planned = plan(self._topology, existing)
        note = note_of(self._topology)
        now = fingerprint(self._topology, planned)
        for line in compare(None if self._config.accept_changes else self._log.note(note), now):
            logger.info("new since the last start: %s", line)
        for topic in planned.internal:
            self._log.create(_as_it_is(topic, existing.get(topic.name)))
        self._log.write_note(note, text_of(now))
        self._planned_for = existing.keys() | {topic.name for topic in planned.internal}
        self._used = self._kinds_and_ids(planned)
        return planned

    def _create_missing(self) -> None:
        for name, kind in missing(self._topology, self._log.topics()).items():
            if not self._config.create_topics:
                raise absent(kind, name)
            self._log.create(Topic(name, self._config.create_topics))
            logger.info('created %s topic "%s" with %d partitions', kind, name, self._config.create_topics)

    def _kinds_and_ids(self, planned: Plan) -> dict[str, tuple[str, str]]:
        """Of all topics that must stay; those that match a pattern may come and go."""
        kinds = missing(self._topology, {}) | {topic.name: "internal" for topic in planned.internal}
        existing = self._log.topics()
        for name, kind in kinds.items():
            if name not in existing:  # deleted a moment ago
                raise absent(kind, name)
        return {name: (kind, existing[name].id) for name, kind in kinds.items()}


def _as_it_is(topic: Topic, existing: Topic | None) -> Topic:
    """An internal topic keeps the config it was created with, unless that means something else."""
    if existing is None or dict(existing.config) == dict(topic.config):
        return topic
    kept, wanted = (one.config.get("cleanup.policy", "delete") for one in (existing, topic))
    if kept != wanted:
        raise PartitionError(
            f'internal topic "{topic.name}" exists with cleanup.policy={kept}, and the topology needs {wanted}; keep '
            f"what you need of it, delete it (streamtopo topics delete {topic.name}), and start again"
        )
    logger.warning(
        'internal topic "%s" keeps the config %s it was created with; it would be %s now',
        topic.name,
        dict(existing.config),
        dict(topic.config),
    )
    return topic._replace(config=existing.config)


def _deleted(kind: str, topic: str, *, again: bool) -> PartitionError:
    lost = f'{kind} topic "{topic}" was deleted while the worker was running'
    if again:
        return PartitionError(f"{lost}, and created anew; start the worker again to use the new one")
    if kind == "internal":
        return PartitionError(f"{lost}; start the worker again to have it created anew, without what was in it")
    create = f"streamtopo topics create {topic} --partitions 4"
    return PartitionError(f"{lost}; create it again ({create}), and start the worker")
