"""The topics of one topology on one log: planned, created if they are internal, and checked while workers run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from streamtopo.dead_letters.letters import dead_letter_topic
from streamtopo.engine.compatibility.accepted_changes import fitted
from streamtopo.engine.compatibility.fingerprint import Fingerprint, entries_of, note_of
from streamtopo.engine.failures.topics import CONFIG, dead_letter_topics
from streamtopo.engine.plan import AFTER, DELETIONS, Plan, absent, difference, missing, plan
from streamtopo.engine.topics.missing_topics import MissingTopics
from streamtopo.engine.topics.other_topology import warn_of_other_topology
from streamtopo.engine.topics.spacing import Spacing
from streamtopo.errors import PartitionError
from streamtopo.logs import Log, Topic
from streamtopo.logs.topics import check_equal
from streamtopo.settings.config import WorkerConfig
from streamtopo.topology import Topology
from streamtopo.wall_clock import steady_clock

logger = logging.getLogger("streamtopo")

_BETWEEN_CHECKS = 1.0
"""Seconds at least between two checks whether the topics still exist."""
_REST = 50
"""The pause between two looks at the topics is this multiple of what a look takes: long on a large cluster."""


class Topics:
    def __init__(
        self, topology: Topology, log: Log, config: WorkerConfig, now: Callable[[], float] = steady_clock
    ) -> None:
        self._topology = topology
        self._patterns = any(source.pattern for source in topology.sources)
        self._log = log
        self._config = config
        self._missing = MissingTopics(topology, log, config)
        self.created: dict[str, int] = {}
        """The sources and sinks that were missing at the start, and with how many partitions they were created."""
        self._counts: dict[str, int] = {}
        self._news = Spacing(config, _REST, now=now)
        self._checks = Spacing(config, _REST, least=_BETWEEN_CHECKS, now=now)
        self._fingerprint = Fingerprint({})
        self.plan = self._prepare(accept=config.accept_changes)
        if not config.no_create:
            warn_of_other_topology(topology, log)

    def emptied(self, store: str) -> int:
        """How often an accepted change has emptied the store."""
        return self._fingerprint.emptied.get(store, 0)

    def refresh(self) -> bool:
        """Plan again if a source has a pattern and the topics have changed; true if so."""
        if self._checks.due:
            self.check()
        if not self._patterns or not self._news.due or self._look().keys() == self._planned_for:
            return False
        self.plan = self._prepare(accept=False)  # while tasks are running, nothing can be deleted
        return True

    def _look(self) -> Mapping[str, Topic]:
        with self._news.look():
            return self._log.topics()

    def check(self) -> None:
        """Raise an error if a topic is gone: without it there is no work, which would look like having caught up."""
        with self._checks.look():
            existing = self._log.topics()
        for name, (kind, topic) in self._used.items():
            if name not in existing or existing[name].id != topic.id:
                raise _deleted(kind, name, again=name in existing)
            if existing[name].partitions != topic.partitions:
                raise _resized(kind, topic, existing[name].partitions)

    def partitions(self, topic: str) -> int:
        if topic not in self._counts:
            if self._missing.partitions and topic not in self._log.topics():
                self._log.create(Topic(topic, self._missing.partitions))
            self._counts = {name: known.partitions for name, known in self._log.topics().items()}
        if topic not in self._counts:
            raise PartitionError(
                f'topic "{topic}" does not exist; create it first: streamtopo topics create {topic} --partitions 4'
            )
        return self._counts[topic]

    def _prepare(self, *, accept: bool) -> Plan:
        """Plan, create what is missing, and compare with what an earlier version left behind."""
        self.created |= self._missing.create()
        keep_deletions = self._config.keep_deletions or self._log.keeps_deletions
        planned = plan(self._topology, dict(self._log.topics()), keep_deletions)
        self._fingerprint = Fingerprint(entries_of(self._topology, planned))
        if not (self._config.no_create and self._config.accept_changes):  # there may be no right to read the note
            self._fingerprint = fitted(self._topology, self._log, self._fingerprint.entries, accept=accept)
        existing = dict(self._log.topics())
        for topic in planned.internal:
            self._have(topic, existing.get(topic.name))
        usual = dead_letter_topic(self._topology.application_id, self._config.dead_letter_topic)
        for name in dead_letter_topics(self._topology, self._config.on_error, usual) - existing.keys():
            self._create_dead_letters(name, planned)
        if not self._config.no_create:
            self._log.write_note(note_of(self._topology), self._fingerprint.text())
        self._planned_for = existing.keys() | {topic.name for topic in planned.internal}
        self._used = self._kinds_and_topics(planned)
        return planned

    def _create_dead_letters(self, name: str, planned: Plan) -> None:
        topic = Topic(name, max(planned.tasks, default=1), CONFIG)
        if self._config.no_create:
            raise _not_created(topic, "dead-letter")
        self._log.create(topic)
        logger.info('created topic "%s" for dead letters with %d partitions', name, topic.partitions)

    def _have(self, internal: Topic, existing: Topic | None) -> None:
        if not self._config.no_create:
            self._log.create(self._as_it_is(internal, existing))
        elif existing is None:
            raise _not_created(internal)
        else:
            check_equal(existing, self._as_it_is(internal, existing))

    def _as_it_is(self, internal: Topic, existing: Topic | None) -> Topic:
        if existing is not None:
            # Created by a version, or for a log, without these settings, and no other ones were requested.
            unasked = ({AFTER} if self._config.keep_deletions else {AFTER, DELETIONS}) - existing.config.keys()
            internal = internal._replace(config={k: v for k, v in internal.config.items() if k not in unasked})
        return _as_it_is(internal, existing)

    def _kinds_and_topics(self, planned: Plan) -> dict[str, tuple[str, Topic]]:
        """All topics that must stay; topics that match a pattern may come and go."""
        kinds = missing(self._topology, {}) | {topic.name: "internal" for topic in planned.internal}
        existing = self._log.topics()
        if gone := {name: kind for name, kind in kinds.items() if name not in existing}:  # deleted a moment ago
            raise absent(gone)
        return {name: (kind, existing[name]) for name, kind in kinds.items()}


def _not_created(topic: Topic, kind: str = "internal") -> PartitionError:
    config = "".join(f" --config {name}={value}" for name, value in topic.config.items())
    return PartitionError(
        f'{kind} topic "{topic.name}" does not exist; create it (streamtopo topics create '
        f"{topic.name} --partitions {topic.partitions}{config}), or start without --no-create (no_create=True)"
    )


def _as_it_is(topic: Topic, existing: Topic | None) -> Topic:
    """An internal topic keeps the config it was created with, unless the topology needs another one."""
    if existing is None or dict(existing.config) == dict(topic.config):
        return topic
    if found := difference(existing, topic):
        kept, needed = found
        raise PartitionError(
            f'internal topic "{topic.name}" exists with {kept}, but the topology needs {needed}; save what '
            f"you need from it, delete it (streamtopo topics delete {topic.name}), and start again"
        )
    if existing.config_known:
        logger.warning(
            'internal topic "%s" keeps the config %s it was created with; a new one would have %s',
            topic.name,
            dict(existing.config),
            dict(topic.config),
        )
    return topic._replace(config=existing.config)


def _resized(kind: str, topic: Topic, partitions: int) -> PartitionError:
    return PartitionError(
        f'{kind} topic "{topic.name}" has {partitions} partitions now, and had {topic.partitions} when the worker '
        "started, so keys go to other partitions; if it has state, run streamtopo reset; then start the worker again"
    )


def _deleted(kind: str, topic: str, *, again: bool) -> PartitionError:
    lost = f'{kind} topic "{topic}" was deleted while the worker was running'
    if again:
        return PartitionError(f"{lost}, and created again; start the worker again to use the new one")
    if kind == "internal":
        return PartitionError(f"{lost}; start the worker again to create an empty one")
    create = f"streamtopo topics create {topic} --partitions 4"
    return PartitionError(f"{lost}; create it again ({create}), and start the worker")
