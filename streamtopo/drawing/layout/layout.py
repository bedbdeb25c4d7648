"""The layout of a whole drawing: each subtopology by itself, then all of them with the topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamtopo.drawing.graph import Edge, Graph
from streamtopo.drawing.layout.block import Block, Rect, Route, Shape, block_of
from streamtopo.drawing.layout.paths import through
from streamtopo.drawing.layout.placement import Placement, Run, Spacing, place
from streamtopo.drawing.layout.rows import Cell, Link, ranks
from streamtopo.drawing.layout.sizes import size_of

OUTER = Spacing(side=36, between=46, align=0)


@dataclass(frozen=True, slots=True)
class Frame:
    """The box of a subtopology."""

    number: int
    rect: Rect


@dataclass(frozen=True, slots=True)
class Picture:
    frames: tuple[Frame, ...]
    shapes: tuple[Shape, ...]
    routes: tuple[Route, ...]
    width: float
    height: float


def picture_of(graph: Graph) -> Picture:
    blocks = [block_of(box, graph.edges) for box in graph.boxes]
    outer = _Outer(graph, blocks)
    placement = place(outer.cells, outer.links, outer.rank, OUTER)
    frames: list[Frame] = []
    shapes = [_shape(graph, index, placement) for index in range(len(graph.outside))]
    routes = outer.routes(placement)
    for number, block in enumerate(blocks):
        x, y = placement.spots[f"box{number}"]
        x -= block.width / 2
        frames.append(Frame(graph.boxes[number].number, Rect(x, y, block.width, block.height)))
        shapes += [shape.moved(x, y) for shape in block.shapes]
        routes += [route.moved(x, y) for route in block.routes]
    return Picture(tuple(frames), tuple(shapes), tuple(routes), placement.width, placement.height)


def _shape(graph: Graph, index: int, placement: Placement) -> Shape:
    item = graph.outside[index]
    size = size_of(item)
    x, y = placement.spots[item.id]
    return Shape(item, Rect(x - size.width / 2, y, size.width, size.height), size.lines)


class _Outer:
    """The graph of blocks and topics; an edge of a source or sink links to a position along its block."""

    def __init__(self, graph: Graph, blocks: list[Block]) -> None:
        sizes = {item.id: size_of(item) for item in graph.outside}
        self.blocks = blocks
        self.cells = [Cell(id, size.width / 2, size.width / 2, size.height) for id, size in sizes.items()]
        self.cells += [
            Cell(f"box{number}", block.width / 2, block.width / 2, block.height) for number, block in enumerate(blocks)
        ]
        self.box_of = {shape.item.id: number for number, block in enumerate(blocks) for shape in block.shapes}
        self.edges = [edge for edge in graph.edges if edge.start in sizes or edge.end in sizes]
        self.links = [self._link(edge) for edge in self.edges]
        self.rank = _lowered(ranks([cell.name for cell in self.cells], self.links), self.links)

    def _link(self, edge: Edge) -> Link:
        (start, leaves, _), (end, enters, _) = self._end(edge.start), self._end(edge.end)
        return Link(start, end, leaves, enters)

    def _end(self, id: str) -> tuple[str, float, float]:
        """The cell of an item, the item's distance from the cell's anchor, and its depth inside the cell."""
        if id not in self.box_of:
            return id, 0, 0
        number = self.box_of[id]
        block = self.blocks[number]
        rect = block.rect_of(id)
        middle = rect.x + rect.width / 2 - block.width / 2
        depth = rect.y if id in block.entries else block.height - rect.y - rect.height
        return f"box{number}", middle, depth

    def routes(self, placement: Placement) -> list[Route]:
        found = []
        for edge, (first, *lanes, last) in zip(self.edges, placement.runs, strict=True):
            start = Run(first.x, first.start - self._end(edge.start)[2], first.end)
            end = Run(last.x, last.start, last.end + self._end(edge.end)[2])
            found.append(Route(edge, through([start, *lanes, end])))
        return found


def _lowered(rank: dict[str, int], links: Iterable[Link]) -> dict[str, int]:
    """A topic that no node writes is directly above its first reader."""
    written = {link.end for link in links}
    readers: dict[str, list[int]] = {}
    for link in links:
        readers.setdefault(link.start, []).append(rank[link.end])
    return {
        name: row if name in written else max(row, min(readers.get(name, [row + 1])) - 1) for name, row in rank.items()
    }
