"""Which topics a topology needs and with how many partitions, found before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from streamtopo.errors import PartitionError
from streamtopo.logs import Topic
from streamtopo.stores import StoreSpec
from streamtopo.topology import Topology
from streamtopo.topology.nodes import SinkNode, Subtopology
from streamtopo.windows import FOREVER

AFTER = "message.timestamp.after.max.ms"
_TIMES = {"message.timestamp.type": "CreateTime", AFTER: str(FOREVER)}
"""Internal topics keep the timestamps of their records, whatever the log's defaults are, because windows and rows need
them. Records from the future are accepted, too: a broker that refuses one would block everything after it."""
REPARTITION_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", **_TIMES}
"""Only whole, closed segments are deleted, so small segments let purging free the disk."""
DELETIONS = "delete.retention.ms"
CHANGELOG_CONFIG = {"cleanup.policy": "compact", **_TIMES}
_MEANING = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
"""The settings that an internal topic must have as the topology needs them, with their defaults."""


class Part(NamedTuple):
    """A subtopology, the topics its tasks read, and how many tasks it has."""

    subtopology: Subtopology
    topics: tuple[str, ...]
    tasks: int


@dataclass(frozen=True)
class Plan:
    subtopologies: tuple[Subtopology, ...]
    topics: tuple[tuple[str, ...], ...]
    """The topics that each subtopology reads, by their names in the log."""
    tasks: tuple[int, ...]
    """The number of tasks of each subtopology."""
    internal: tuple[Topic, ...]
    """The topics that the log must have, besides those that other programs write."""
    everywhere: tuple[Subtopology, ...] = ()
    """The subtopologies that feed global stores: each worker runs all of them."""

    def part(self, number: int) -> Part:
        """The part with this subtopology number. Subtopologies that run everywhere are numbered, too."""
        for part in map(Part, self.subtopologies, self.topics, self.tasks):
            if part.subtopology.number == number:
                return part
        return next(Part(part, (), 1) for part in self.everywhere if part.number == number)


def missing(topology: Topology, existing: Mapping[str, Topic]) -> dict[str, str]:
    """The sources and sinks that do not exist, by topic: "source" or "sink"."""
    sources = {topic: "source" for source in topology.sources for topic in source.topics}
    sinks = {sink.topic: "sink" for sink in topology.sinks if isinstance(sink.topic, str)}
    internal = {*topology.repartitions, *map(topology.topic_of, topology.repartitions)}
    there = internal.union(existing)
    return {name: kind for name, kind in (sources | sinks | sources).items() if name not in there}


def absent(kinds: Mapping[str, str], *, may_create: bool = True) -> PartitionError:
    """`kinds`: "source", "sink" or "internal", by topic."""
    topics = ", ".join(f'{kind} topic "{name}"' for name, kind in kinds.items())
    verb, them = ("does", "it") if len(kinds) == 1 else ("do", "them")
    option = ", or start with --create-topics 4 (create_topics=4), which creates all that are missing"
    return PartitionError(
        f"{topics} {verb} not exist; create {them} first: streamtopo topics create {' '.join(kinds)} --partitions 4"
        + (option if may_create else "")
    )


def difference(existing: Topic, wanted: Topic) -> tuple[str, str] | None:
    """A setting with which the existing topic cannot be used, and the needed value; None if the topic can be used."""
    for name, usual in _MEANING.items() if existing.config_known else ():
        kept, needed = existing.setting(name, usual), wanted.setting(name, usual)
        if kept != needed:
            return f"{name}={kept}", needed
    return None


def changelog_config(spec: StoreSpec, keep_deletions: int) -> dict[str, str]:
    """`keep_deletions`: milliseconds, or 0 for what the log does by itself."""
    kept = {DELETIONS: str(keep_deletions)} if keep_deletions else {}
    return CHANGELOG_CONFIG | kept | dict(spec.topic_config)


def plan(topology: Topology, existing: Mapping[str, Topic], keep_deletions: int = 0) -> Plan:
    subtopologies = topology.subtopologies()
    reads = tuple(_topics_read(topology, subtopology, existing) for subtopology in subtopologies)
    counts = {name: topic.partitions for name, topic in existing.items()}
    counts |= _repartition_counts(topology, subtopologies, reads, counts)
    for subtopology, topics in zip(subtopologies, reads, strict=True):
        if subtopology.stores:
            _check_copartitioned(topics, counts)
    tasks = tuple(max((counts[topic] for topic in topics), default=0) for topics in reads)
    repartitions = [
        Topic(topology.topic_of(name), counts[topology.topic_of(name)], REPARTITION_CONFIG | dict(wanted.config))
        for name, wanted in topology.repartitions.items()
        if counts[topology.topic_of(name)]
    ]
    changelogs = [
        Topic(topology.changelog_of(spec.name), number, changelog_config(spec, keep_deletions))
        for subtopology, number in zip(subtopologies, tasks, strict=True)
        for spec in subtopology.stores
        if spec.logged and number
    ]
    return Plan(subtopologies, reads, tasks, (*repartitions, *changelogs), topology.global_subtopologies())


def _topics_read(topology: Topology, subtopology: Subtopology, existing: Mapping[str, Topic]) -> tuple[str, ...]:
    topics = {topology.topic_of(topic) for source in subtopology.sources for topic in source.topics}
    topics |= {name for name in existing for source in subtopology.sources if source.matches(name)}
    internal = set(map(topology.topic_of, topology.repartitions))
    if gone := sorted(topics - internal - existing.keys()):
        raise absent(dict.fromkeys(gone, "source"))
    return tuple(sorted(topics))


def _repartition_counts(
    topology: Topology,
    subtopologies: Iterable[Subtopology],
    reads: Iterable[tuple[str, ...]],
    known: Mapping[str, int],
) -> dict[str, int]:
    """As declared; else as many as the topics it is read with; else as the largest of the topics that feed those."""
    given = {
        topology.topic_of(name): wanted.partitions
        for name, wanted in topology.repartitions.items()
        if wanted.partitions is not None
    }
    waiting = [topic for topic in map(topology.topic_of, topology.repartitions) if topic not in given]
    depends = _dependencies(topology, subtopologies, reads, set(waiting))
    counts = {name: count for name, count in known.items() if name not in waiting} | given
    while waiting:
        # Tables joined by a foreign key feed each other: then what is known of their sources decides.
        found = _found(waiting, depends, counts, all) or _found(waiting, depends, counts, any)
        if not found:
            raise PartitionError(
                f"the partition counts of {', '.join(waiting)} depend on each other; "
                "give one of them a count: repartition(partitions=…)"
            )
        counts |= found
        waiting = [topic for topic in waiting if topic not in counts]
    return counts


def _found(
    waiting: list[str],
    depends: Mapping[str, set[str]],
    counts: Mapping[str, int],
    enough: Callable[[Iterable[object]], bool],
) -> dict[str, int]:
    return {
        topic: max((counts[name] for name in depends[topic] if name in counts), default=0)
        for topic in waiting
        if enough([name in counts for name in depends[topic]])
    }


def _dependencies(
    topology: Topology,
    subtopologies: Iterable[Subtopology],
    reads: Iterable[tuple[str, ...]],
    undecided: set[str],
) -> dict[str, set[str]]:
    """For each topic whose count is not decided: the topics that decide it."""
    beside: dict[str, set[str]] = {topic: set() for topic in undecided}
    together: dict[str, set[str]] = {topic: {topic} for topic in undecided}
    feeding: dict[str, set[str]] = {topic: set() for topic in undecided}
    for subtopology, topics in zip(subtopologies, reads, strict=True):
        for topic in undecided.intersection(topics):
            beside[topic].update(set(topics) - undecided)
            together[topic].update(undecided.intersection(topics))
        for topic in undecided.intersection(_written(topology, subtopology)):
            feeding[topic].update(topics)
    return {topic: beside[topic] or set().union(*map(feeding.__getitem__, together[topic])) for topic in undecided}


def _written(topology: Topology, subtopology: Subtopology) -> set[str]:
    return {
        topology.topic_of(node.topic)
        for node in subtopology.nodes
        if isinstance(node, SinkNode) and isinstance(node.topic, str)
    }


def _check_copartitioned(topics: tuple[str, ...], counts: Mapping[str, int]) -> None:
    for topic in topics[1:]:
        if counts[topic] != counts[topics[0]]:
            raise PartitionError(
                f'topics "{topics[0]}" and "{topic}" are read together by a step with state, but have '
                f"{counts[topics[0]]} and {counts[topic]} partitions; give both the same number, or bring {topic} "
                f"to {counts[topics[0]]} in the topology: a stream with .repartition(partitions={counts[topics[0]]}), "
                f"a table with .to_stream().repartition(partitions={counts[topics[0]]}).to_table()"
            )
