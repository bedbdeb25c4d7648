"""What must be known of a subtopology before its steps are opened: where rows meet, and which nodes run together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode, Subtopology


@dataclass(frozen=True)
class Shape:
    ordered: bool
    """Whether rows have an order, because they meet somewhere, or a node needs the records that they came from."""
    paths: bool
    """Rows made from one record can meet again, so their order includes each fork and emission on the way."""
    together: frozenset[str]
    """Nodes that run record by record, depth first: processors that share a store, and the nodes between them."""


def shape_of(subtopology: Subtopology, *, depth_first: bool = False) -> Shape:
    nodes = subtopology.nodes
    together = frozenset(node.name for node in nodes) if depth_first else _together(nodes)
    meetings = _meetings(nodes, together)
    roots = sources_above(nodes)
    asking = any(
        node.operator.records
        if isinstance(node, ProcessorNode)
        else isinstance(node, SinkNode) and callable(node.topic)
        for node in nodes
    )
    return Shape(
        ordered=asking or bool(meetings) or depth_first,
        paths=depth_first
        or any(roots[one] & roots[other] for parents in meetings for one, other in combinations(parents, 2)),
        together=together,
    )


def _meetings(nodes: Iterable[Node], together: frozenset[str]) -> list[list[str]]:
    """The parents at each point where rows of several edges meet.

    That is a node with several parents, the nodes that run together, and a topic with several sinks, where a sink that
    picks its topic by record may meet any other.
    """
    sinks = [node for node in nodes if isinstance(node, SinkNode)]
    dynamic = any(callable(sink.topic) for sink in sinks)
    by_topic: dict[object, list[str]] = {}
    for sink in sinks:
        by_topic.setdefault(dynamic or sink.topic, []).extend(sink.parents)
    entries = [parent for node in nodes if node.name in together for parent in node.parents if parent not in together]
    joined = [heard(node) for node in nodes if not isinstance(node, SinkNode)]
    return [parents for parents in [*joined, entries, *by_topic.values()] if len(parents) > 1]


def sources_above(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """For each node, the sources from which its rows come, or those of a table that it reads."""
    roots: dict[str, frozenset[str]] = {}
    for node in nodes:
        own = frozenset([node.name]) if isinstance(node, SourceNode) else frozenset[str]()
        roots[node.name] = own.union(*(roots[parent] for parent in heard(node)))
    return roots


def _together(nodes: tuple[Node, ...]) -> frozenset[str]:
    users: dict[str, list[ProcessorNode]] = {}
    for node in nodes:
        if isinstance(node, ProcessorNode):
            for store in (*node.stores, *node.uses):
                users.setdefault(store, []).append(node)
    together = {
        node.name
        for sharing in users.values()
        if len(sharing) > 1 and any(node.operator.records for node in sharing)
        for node in sharing
    }
    while grown := _grown(nodes, together) - together:
        together |= grown
    return frozenset(together)


def _grown(nodes: tuple[Node, ...], together: set[str]) -> set[str]:
    """With the nodes between them, those that watch one of them, and those that one of them watches."""
    below = set(together)
    for node in nodes:
        if below.intersection(heard(node)):
            below.add(node.name)
    above = set(together)
    for node in reversed(nodes):
        if node.name in above:
            above.update(heard(node))
    watching = [node for node in nodes if isinstance(node, ProcessorNode) and node.watches]
    bound = [{node.name, *node.watches} for node in watching if together & {node.name, *node.watches}]
    return (below & above).union(*bound)


def heard(node: Node) -> list[str]:
    """The nodes whose rows meet in this one: its parents, and those that keep the tables it reads."""
    return [*node.parents, *(node.watches if isinstance(node, ProcessorNode) else ())]
