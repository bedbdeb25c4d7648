"""What a topology declares for a topic: serdes, and whether it is read as a table."""

from __future__ import annotations

from collections.abc import Iterator

from streamtopo.serdes import Serde
from streamtopo.topology import Topology
from streamtopo.topology.nodes import ProcessorNode

Serdes = tuple[Serde, Serde]
"""For keys and for values."""


def read_or_written(topology: Topology, topic: str) -> Iterator[Serdes]:
    """Those of every source that reads the topic, then of every sink that writes to it."""
    for source in topology.sources:
        if topic in map(topology.topic_of, source.topics) or source.matches(topic):
            yield source.key, source.value
    for sink in topology.sinks:
        if isinstance(sink.topic, str) and topology.topic_of(sink.topic) == topic:
            yield sink.key, sink.value


def declared_serdes(topology: Topology, topic: str) -> Iterator[Serdes]:
    """These, then those of the store if the topic is a changelog."""
    yield from read_or_written(topology, topic)
    for store in topology.stores.values():
        if topology.changelog_of(store.name) == topic:
            yield store.key, store.value


def read_as_table(topology: Topology, topic: str) -> bool:
    """Whether `builder.table` or `builder.global_table` reads the topic: tables drop records without a key."""
    sources = {source.name for source in topology.sources if topic in map(topology.topic_of, source.topics)}
    return any(
        node.name.startswith("KTABLE-SOURCE-") and not node.operator.records and not sources.isdisjoint(node.parents)
        for node in topology.nodes.values()
        if isinstance(node, ProcessorNode)
    )
