"""The ways that rows go from node to node, and the rows on their way."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from streamtopo.engine.program.shape import Shape
from streamtopo.records import (
    EVERY_CHILD,
    NOTHING,
    Chunk,
    Puts,
    below,
    concatenate,
    interleave,
    made_from,
    private_column,
)
from streamtopo.topology.nodes import Node, ProcessorNode


@dataclass(eq=False)
class Edge:
    """From a node to one of its children."""

    parent: str
    child: str
    position: int
    """The child's place among the parent's children."""
    side: int
    """The parent's place among the child's parents."""
    forks: bool = False
    """Rows that are separated here may meet again: their order includes the path that they took."""
    copies: bool = False
    """Other nodes read the parent's rows after this child, so it gets its own."""

    def carry(self, chunk: Chunk) -> Chunk:
        if chunk.routes is not None:
            chunk = chunk.select([route in (self.position, EVERY_CHILD) for route in chunk.routes])
        order = chunk.order
        if self.forks and order is not None:
            order = [below(place, self.position) for place in order]
        keys, values, old = chunk.keys, chunk.values, chunk.old
        if self.copies:
            keys, values, old = private_column(keys), private_column(values), old and private_column(old)
        return replace(chunk, keys=keys, values=values, order=order, sides=None, routes=None, old=old)


@dataclass(eq=False)
class Watch:
    """Sends what was put into a table, not what it forwards, from the table's node to a node that reads it."""

    table: str
    reader: str
    as_forwarded: bool
    """Rows go this way when the table's node forwards them; otherwise when it puts them."""

    def carry(self, puts: Puts) -> Puts:
        """Readers may change values, so each gets its own."""
        return replace(puts, values=private_column(puts.values))


@dataclass(frozen=True)
class Edges:
    """Those of one node."""

    arriving: list[Edge] = field(default_factory=list)
    leaving: list[Edge] = field(default_factory=list)
    watching: list[Watch] = field(default_factory=list)
    """From the tables that it reads, in their order."""
    watched: list[Watch] = field(default_factory=list)
    """To the nodes that read its table."""


class Flow:
    """What is on its way in one pass."""

    def __init__(self) -> None:
        self.rows: dict[Edge, Chunk] = {}
        self.puts: dict[Watch, Puts] = {}

    def send(self, edge: Edge, chunk: Chunk) -> None:
        """After those rows that are on their way along this edge already."""
        rows = self.rows
        rows[edge] = replace(concatenate([rows[edge], chunk]), sides=None) if edge in rows else chunk

    def leave_out(self, numbers: Collection[int]) -> None:
        """Drop all rows that were made from these records."""
        kept = {edge: chunk.without(made_from(chunk.order or (), numbers)) for edge, chunk in self.rows.items()}
        self.rows = {edge: chunk for edge, chunk in kept.items() if len(chunk)}

    def gather(self, arriving: list[Edge]) -> Chunk:
        """The rows that arrived through these edges, in the order in which single records would have arrived."""
        rows = self.rows
        if len(arriving) == 1:
            return rows.pop(arriving[0], NOTHING)
        came = [(edge.side, rows.pop(edge)) for edge in arriving if edge in rows]
        if not came:
            return NOTHING
        if len(came) == 1:
            ((side, chunk),) = came
            return replace(chunk, sides=[side] * len(chunk))
        chunk = interleave([chunk for _, chunk in came])
        sides = [side for side, _ in came]
        return replace(chunk, sides=[sides[place] for place in chunk.sides or ()])


def edges_of(nodes: Iterable[Node], shape: Shape) -> dict[str, Edges]:
    """By node. Nodes that run depth first watch nothing: they find each row as it is at that moment."""
    edges = {node.name: Edges() for node in nodes}
    for node in nodes:
        for side, parent in enumerate(node.parents):
            edge = Edge(parent, node.name, len(edges[parent].leaving), side)
            edges[node.name].arriving.append(edge)
            edges[parent].leaving.append(edge)
        if isinstance(node, ProcessorNode) and node.name not in shape.together:
            for table in node.watches:
                watch = Watch(table, node.name, node.as_forwarded)
                edges[node.name].watching.append(watch)
                edges[table].watched.append(watch)
    for several in edges.values():
        for edge in several.leaving:
            edge.forks = shape.paths and len(several.leaving) > 1
    return edges
