"""Finds loops without an end: topics whose records are all written to them again."""

from __future__ import annotations

from collections.abc import Iterable

from streamtopo.errors import TopologyError
from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode


def check_loops(nodes: Iterable[Node]) -> None:
    """Raise TopologyError if all records of a source come back to it. With a filter on the way, a loop may end."""
    nodes = list(nodes)
    for source in nodes:
        reached = [source]
        for node in reached if isinstance(source, SourceNode) else ():  # it grows meanwhile
            following = [one for one in nodes if _gets_all(one, node)]
            if source in following:
                raise TopologyError(
                    f"each record that {source.name} ({source.place}) reads is written to its topic again by "
                    f"{node.name} ({node.place}), without end; write to another topic, or filter what is written"
                )
            reached += [one for one in following if one not in reached]


def _gets_all(node: Node, before: Node) -> bool:
    """Whether each row that reaches `before` reaches the node, too."""
    if isinstance(node, SourceNode):
        return isinstance(before, SinkNode) and isinstance(before.topic, str) and node.reads(before.topic)
    forwards_all = before.operator.forwards_all if isinstance(before, ProcessorNode) else True
    return forwards_all and before.name in node.parents
