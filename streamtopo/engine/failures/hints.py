"""Hints for failures of a kind that many people meet in their first hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamtopo.errors import FailedRecord, SerdeError, safely
from streamtopo.serdes import BYTES
from streamtopo.topology.nodes import Node, ProcessorNode, SourceNode

_ON_BYTES = ("'bytes' object", "byte indices", "bytes-like object", "str to bytes", "bytes to str")
"""In messages of Python about bytes that are used as something else."""


def hint(nodes: Mapping[str, Node], failed: FailedRecord) -> str:
    """What may help; "" if nothing is known."""
    node, cause = nodes.get(failed.node), failed.cause
    if node is None or failed.stage == "decode":
        return ""
    if isinstance(cause, SerdeError) and cause.misfit:
        return _where_made(cause.misfit, nodes, node)
    if isinstance(cause, TypeError | AttributeError) and any(part in safely(str, cause) for part in _ON_BYTES):
        return _undeclared(nodes, node)
    return ""


def _where_made(what: str, nodes: Mapping[str, Node], node: Node) -> str:
    """The nearest steps before the node that return keys or values. If it does so itself, it is named already.

    Not in reduce, whose first row of a key is a value that it gets.
    """
    if _makes(what, node) and not node.name.startswith("KSTREAM-REDUCE-"):
        return ""
    made = [f"{one.name} ({one.place})" for one in _nearest(what, nodes, node)]
    return f"it is made by {' or '.join(made)}" if made else ""


def _nearest(what: str, nodes: Mapping[str, Node], node: Node) -> Iterator[Node]:
    reached = list(node.parents)
    for one in map(nodes.__getitem__, reached):  # it grows meanwhile
        if _makes(what, one):
            yield one
        else:
            reached += [parent for parent in one.parents if parent not in reached]


def _makes(what: str, node: Node) -> bool:
    return isinstance(node, ProcessorNode) and node.operator.function is not None and what in node.operator.makes


def _undeclared(nodes: Mapping[str, Node], node: Node) -> str:
    """For bytes that a source of the node reads without a type."""
    if isinstance(node, SourceNode):
        untyped = [what for what, serde in (("key", node.key), ("value", node.value)) if serde == BYTES]
        declared = " and ".join(f"{what}=…" for what in untyped)
        return f"{node.name} ({node.place}) gives bytes, as it declares no type; give it {declared}" if declared else ""
    return next(filter(None, (_undeclared(nodes, nodes[parent]) for parent in node.parents)), "")
