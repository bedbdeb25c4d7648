"""The form of a topology that all drawings share: boxes with nodes and stores, topics outside of them, and edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from streamtopo.stores import StoreSpec
from streamtopo.topology import Topology
from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode, Subtopology

TopicKey = str | Callable[..., str] | tuple[str, str]
"""The identity of a topic: its name, the function that chooses it, or ("pattern", its text)."""


class Kind(Enum):
    TOPIC = "topic"
    INTERNAL = "internal topic"
    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Item:
    """Something to draw. The id has only letters and digits; the name may be any text, such as a pattern."""

    id: str
    kind: Kind
    name: str
    note: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """Records flow from start to end, `times` times; or, with `state`, a processor uses a store."""

    start: str
    end: str
    state: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class Box:
    """One subtopology."""

    number: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    application_id: str
    boxes: tuple[Box, ...]
    outside: tuple[Item, ...]
    edges: tuple[Edge, ...]


def graph_of(topology: Topology) -> Graph:
    ids = _ids(topology)
    boxes = tuple(_box(topology, part, ids) for part in all_parts(topology))
    boxed = {item.id for box in boxes for item in box.items}
    outside = [_topic(topology, topic, id) for topic, id in _topics(topology).items()]
    outside += [_store(topology, spec, ids) for spec in topology.stores.values()]
    loose = tuple(item for item in outside if item.id not in boxed)
    return Graph(topology.application_id, boxes, loose, tuple(_edges(topology, ids)))


def all_parts(topology: Topology) -> list[Subtopology]:
    """The subtopologies in the order of their numbers, including those that feed global stores."""
    parts = [*topology.subtopologies(), *topology.global_subtopologies()]
    return sorted(parts, key=lambda part: part.number)


def function_name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def topics_read(source: SourceNode) -> list[TopicKey]:
    return [*source.topics, *([("pattern", source.pattern.pattern)] if source.pattern is not None else [])]


def _ids(topology: Topology) -> dict[str, str]:
    nodes = {f"node {name}": f"node{number}" for number, name in enumerate(topology.nodes)}
    stores = {f"store {name}": f"store{number}" for number, name in enumerate(topology.stores)}
    return nodes | stores


def _topics(topology: Topology) -> dict[TopicKey, str]:
    """The id of each topic, in the order in which the nodes that use them were added."""
    used: dict[TopicKey, None] = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            used.update(dict.fromkeys(topics_read(node)))
        elif isinstance(node, SinkNode):
            used[node.topic] = None
    return {topic: f"topic{number}" for number, topic in enumerate(used)}


def _topic(topology: Topology, topic: TopicKey, id: str) -> Item:
    if isinstance(topic, tuple):
        return Item(id, Kind.TOPIC, topic[1], "pattern", f"topics matching {topic[1]}")
    if not isinstance(topic, str):
        return Item(
            id,
            Kind.TOPIC,
            function_name(topic),
            "chosen per record",
            f"{function_name(topic)} names the topic",
        )
    if topic in topology.repartitions:
        return Item(id, Kind.INTERNAL, topic, "internal", f"in the log: {topology.topic_of(topic)}")
    return Item(id, Kind.TOPIC, topic)


def _box(topology: Topology, part: Subtopology, ids: dict[str, str]) -> Box:
    nodes = [_node(node, ids) for node in part.nodes]
    return Box(part.number, (*nodes, *(_store(topology, spec, ids) for spec in part.stores)))


def _node(node: Node, ids: dict[str, str]) -> Item:
    kinds = {SourceNode: Kind.SOURCE, ProcessorNode: Kind.PROCESSOR, SinkNode: Kind.SINK}
    serdes = "" if isinstance(node, ProcessorNode) else f"{node.key.name} keys, {node.value.name} values"
    details = ", ".join(filter(None, [serdes, str(node.code_place or "")]))
    return Item(ids[f"node {node.name}"], kinds[type(node)], node.name, details=details)


def _store(topology: Topology, spec: StoreSpec, ids: dict[str, str]) -> Item:
    changelog = f"changelog {topology.changelog_of(spec.name)}" if spec.logged else "no changelog"
    where = "global, from its topic" if spec.name in topology.global_stores else changelog
    details = f"{spec.key.name} keys, {spec.value.name} values, {where}"
    return Item(ids[f"store {spec.name}"], Kind.STORE, spec.name, spec.kind.value, details)


def _edges(topology: Topology, ids: dict[str, str]) -> Iterator[Edge]:
    topics = _topics(topology)
    for node in topology.nodes.values():
        own = ids[f"node {node.name}"]
        if isinstance(node, SourceNode):
            yield from (Edge(topics[topic], own) for topic in topics_read(node))
        for parent, times in Counter(node.parents).items():
            yield Edge(ids[f"node {parent}"], own, times=times)
        if isinstance(node, SinkNode):
            yield Edge(own, topics[node.topic])
        if isinstance(node, ProcessorNode):
            yield from (Edge(own, ids[f"store {store}"], state=True) for store in dict.fromkeys(node.stores))
