"""The text that describes a topology, as Kafka Streams prints it, and a line that names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode, Subtopology

if TYPE_CHECKING:
    from streamtopo.topology import Topology


def summary(topology: Topology) -> str:
    """One line: its topics and stores."""
    inner = topology.repartitions
    reads = [name for source in topology.sources for name in source.topics if name not in inner]
    reads += [f"all {source.pattern.pattern}" for source in topology.sources if source.pattern]
    writes = sorted({sink.topic for sink in topology.sinks if isinstance(sink.topic, str)} - inner.keys())
    facts = {"reads": reads, "writes": writes, "stores": sorted(topology.stores)}
    named = "; ".join(f"{what} {', '.join(names)}" for what, names in facts.items() if names)
    return f"Topology({topology.application_id}: {named or 'nothing yet'})"


def sizes(subtopology: Subtopology) -> dict[str, int]:
    """For each node the number of paths, of any length, that start there. Descriptions list nodes in this order."""
    size = {node.name: 1 for node in subtopology.nodes}
    for node in reversed(subtopology.nodes):
        for parent in node.parents:
            size[parent] += size[node.name]
    return size


def described(subtopology: Subtopology) -> str:
    size = sizes(subtopology)
    what = " for global store (will not generate tasks)" if subtopology.everywhere else ""
    lines = [f"  Sub-topology: {subtopology.number}{what}"]
    for node in sorted(subtopology.nodes, key=lambda node: (-size[node.name], node.name)):
        children = sorted({child.name for child in subtopology.nodes if node.name in child.parents})
        lines.extend(_describe_node(node, children))
    return "\n".join(lines) + ("\n" if subtopology.everywhere else "\n\n")


def _describe_node(node: Node, children: list[str]) -> Iterator[str]:
    match node:
        case SourceNode(topics=topics, pattern=pattern):
            read = pattern.pattern if pattern else f"[{', '.join(sorted(topics))}]"
            yield f"    Source: {node.name} (topics: {read})"
        case ProcessorNode(stores=stores):
            yield f"    Processor: {node.name} (stores: [{', '.join(sorted(stores))}])"
        case SinkNode(topic=topic):
            chosen = f"extractor class: {getattr(topic, '__qualname__', type(topic).__qualname__)}"
            yield f"    Sink: {node.name} (topic: {topic if isinstance(topic, str) else chosen})"
    if not isinstance(node, SinkNode):
        yield f"      --> {', '.join(children) or 'none'}"
    if node.parents:
        yield f"      <-- {', '.join(sorted(set(node.parents)))}"
