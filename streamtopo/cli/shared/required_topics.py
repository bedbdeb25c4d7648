"""The topics that a topology needs in a log, even if some are missing and a worker could not start yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streamtopo.engine.plan import REPARTITION_CONFIG, changelog_config, difference, plan
from streamtopo.logs import Topic
from streamtopo.topology import Topology


class RequiredTopic(NamedTuple):
    topic: str
    kind: str
    """Source, sink, or both; repartition or changelog for internal topics, which a worker creates itself."""
    partitions: int | None
    """None if it depends on topics that are missing."""
    config: Mapping[str, str]
    state: str
    """Its state in the log: "exists", "missing", "to create", or how it differs."""


def required_topics(topology: Topology, existing: Mapping[str, Topic], keep_deletions: int = 0) -> list[RequiredTopic]:
    external = [_external(name, kind, existing.get(name)) for name, kind in sorted(_external_names(topology, existing))]
    missing = any(required.state == "missing" and "source" in required.kind for required in external)
    internal = (
        _internal_topics(topology, keep_deletions) if missing else plan(topology, existing, keep_deletions).internal
    )
    changelogs = set(map(topology.changelog_of, topology.stores))
    return external + [
        _internal(topic, "changelog" if topic.name in changelogs else "repartition", existing.get(topic.name))
        for topic in internal
    ]


def _external_names(topology: Topology, existing: Mapping[str, Topic]) -> Iterator[tuple[str, str]]:
    """Yield the names and kinds of all topics that are not internal ones."""
    read = {name for source in topology.sources for name in (*source.topics, *filter(source.matches, existing))}
    written = {sink.topic for sink in topology.sinks if isinstance(sink.topic, str)}
    internal = {*topology.repartitions, *map(topology.topic_of, topology.repartitions)}
    for name in (read | written) - internal:
        yield name, " and ".join(["source"] * (name in read) + ["sink"] * (name in written))


def _external(name: str, kind: str, known: Topic | None) -> RequiredTopic:
    if known is None:
        return RequiredTopic(name, kind, None, {}, "missing")
    return RequiredTopic(name, kind, known.partitions, dict(known.config), "exists")


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


def _internal(topic: Topic, kind: str, known: Topic | None) -> RequiredTopic:
    partitions = topic.partitions or (known.partitions if known else None)
    state = "to create"
    if known is not None:
        state = "exists"
        if topic.partitions and known.partitions != topic.partitions:
            state = f"exists with {known.partitions} partitions"
        elif found := difference(known, topic):
            state = f"exists with {found[0]}"
    return RequiredTopic(topic.name, kind, partitions, dict(topic.config), state)
