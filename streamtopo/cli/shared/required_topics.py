"""The topics that a topology needs in a log, even if some are missing and a worker could not start yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streamtopo.engine.plan import REPARTITION_CONFIG, changelog_config, difference, plan
from streamtopo.engine.topics.missing_topics import MissingTopics
from streamtopo.logs import Log, Topic
from streamtopo.settings.config import WorkerConfig
from streamtopo.topology import Topology


class RequiredTopic(NamedTuple):
    topic: str
    kind: str
    """Source, sink, or both; repartition or changelog for internal topics."""
    partitions: int | None
    """None if it depends on topics that are missing."""
    config: Mapping[str, str]
    state: str
    """Its state in the log: "exists", "missing", "will be created" when a worker starts, or how it differs."""


MISSING, NEW = "missing", "will be created"


def required_topics(topology: Topology, log: Log, config: WorkerConfig) -> list[RequiredTopic]:
    existing, created = dict(log.topics()), MissingTopics(topology, log, config).planned()
    known = existing | {name: Topic(name, partitions) for name, partitions in created.items()}
    external = [
        _external(name, kind, known.get(name), NEW if name in created else "exists")
        for name, kind in sorted(_external_names(topology, existing))
    ]
    if any(required.state == MISSING and "source" in required.kind for required in external):
        internal = _internal_topics(topology, log.keeps_deletions)
    else:
        internal = list(plan(topology, known, log.keeps_deletions).internal)
    changelogs = set(map(topology.changelog_of, topology.stores))
    return external + [
        _internal(topic, "changelog" if topic.name in changelogs else "repartition", existing.get(topic.name), config)
        for topic in internal
    ]


def _external_names(topology: Topology, existing: Mapping[str, Topic]) -> Iterator[tuple[str, str]]:
    """Yield the names and kinds of all topics that are not internal ones."""
    read = {name for source in topology.sources for name in (*source.topics, *filter(source.matches, existing))}
    written = {sink.topic for sink in topology.sinks if isinstance(sink.topic, str)}
    internal = {*topology.repartitions, *map(topology.topic_of, topology.repartitions)}
    for name in (read | written) - internal:
        yield name, " and ".join(["source"] * (name in read) + ["sink"] * (name in written))


def _external(name: str, kind: str, known: Topic | None, state: str) -> RequiredTopic:
    if known is None:
        return RequiredTopic(name, kind, None, {}, MISSING)
    return RequiredTopic(name, kind, known.partitions, dict(known.config), state)


def _internal_topics(topology: Topology, keep_deletions: int) -> list[Topic]:
    """Return the internal topics with their declared numbers of partitions; 0 if not known yet."""
    used = {spec.name: spec for subtopology in topology.subtopologies() for spec in subtopology.stores}
    repartitions = [
        Topic(topology.topic_of(name), wanted.partitions or 0, REPARTITION_CONFIG | dict(wanted.config))
        for name, wanted in topology.repartitions.items()
    ]
    changelogs = [
        Topic(topology.changelog_of(spec.name), 0, changelog_config(spec, keep_deletions))
        for spec in used.values()
        if spec.logged
    ]
    return [*repartitions, *changelogs]


def _internal(topic: Topic, kind: str, known: Topic | None, config: WorkerConfig) -> RequiredTopic:
    partitions = topic.partitions or (known.partitions if known else None)
    state = MISSING if config.no_create else NEW
    if known is not None:
        state = "exists"
        if topic.partitions and known.partitions != topic.partitions:
            state = f"exists with {known.partitions} partitions"
        elif found := difference(known, topic):
            state = f"exists with {found[0]}"
    return RequiredTopic(topic.name, kind, partitions, dict(topic.config), state)
