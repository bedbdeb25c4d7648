"""The layout of one subtopology: sources are in its first row, sinks in its last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamtopo.drawing.graph import Box, Edge, Item, Kind
from streamtopo.drawing.layout.paths import sideways, through
from streamtopo.drawing.layout.placement import Placement, Run, Spacing, place
from streamtopo.drawing.layout.rows import Cell, Link, ranks
from streamtopo.drawing.layout.sizes import size_of

INNER = Spacing(side=28, between=34, align=0.5)
PADDING = 22.0
TITLE = (118.0, 20.0)
"""The size of the area of the box's title; no line from above may cross it."""
BESIDE = 30.0
"""The distance from a processor to the stores that only it uses."""
STACKED = 10.0
PARALLEL = 18.0
"""The distance between the lines of an edge with several connections."""
ASIDE = 14.0
"""The distance, at the processor, of a line to a store from the lines of records."""


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float

    def moved(self, x: float, y: float) -> Rect:
        return Rect(self.x + x, self.y + y, self.width, self.height)


@dataclass(frozen=True, slots=True)
class Shape:
    item: Item
    rect: Rect
    lines: tuple[str, ...]

    def moved(self, x: float, y: float) -> Shape:
        return Shape(self.item, self.rect.moved(x, y), self.lines)


@dataclass(frozen=True, slots=True)
class Route:
    """The line of an edge, as path data that starts at the origin's (x, y)."""

    edge: Edge
    path: str
    origin: tuple[float, float] = (0, 0)

    def moved(self, x: float, y: float) -> Route:
        return Route(self.edge, self.path, (self.origin[0] + x, self.origin[1] + y))


@dataclass(frozen=True, slots=True)
class Block:
    """The layout of a subtopology; entries are the ids of its sources."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    routes: tuple[Route, ...]
    entries: frozenset[str]

    def rect_of(self, id: str) -> Rect:
        return next(shape.rect for shape in self.shapes if shape.item.id == id)


def block_of(box: Box, edges: Sequence[Edge]) -> Block:
    inner = _Inner(box, edges)
    placement = place(inner.cells, inner.links, inner.rank, INNER)
    sources = frozenset(item.id for item in box.items if item.kind is Kind.SOURCE)
    left = max(PADDING, TITLE[0] - min(placement.spots[id][0] for id in sources))
    top = PADDING + TITLE[1]
    shapes = tuple(shape.moved(left, top) for shape in inner.shapes(placement))
    routes = tuple(route.moved(left, top) for route in inner.routes(placement))
    size = placement.width + 2 * left, top + placement.height + PADDING
    return Block(*size, shapes, routes, sources)


class _Inner:
    """The graph of cells; a processor is one cell together with the stores that only it uses."""

    def __init__(self, box: Box, edges: Sequence[Edge]) -> None:
        self.items = {item.id: item for item in box.items}
        self.sizes = {item.id: size_of(item) for item in box.items}
        within = [edge for edge in edges if edge.start in self.items and edge.end in self.items]
        uses = Counter(edge.end for edge in within if edge.state)
        self.owned = [edge for edge in within if edge.state and uses[edge.end] == 1]
        drawn = [edge for edge in within if not edge.state or uses[edge.end] > 1]
        self.drawn = [(edge, turn) for edge in drawn for turn in range(edge.times)]
        beside = {edge.end for edge in self.owned}
        self.cells = [self._cell(id) for id in self.items if id not in beside]
        first = ranks([cell.name for cell in self.cells], [self._flow(edge) for edge in drawn if not edge.state])
        uppers = {edge.end: min(first[use.start] for use in drawn if use.end == edge.end) for edge in drawn}
        self.links = [
            self._use(edge, first[edge.start] == uppers[edge.end]) if edge.state else self._flow(edge, turn)
            for edge, turn in self.drawn
        ]
        self.rank = ranks([cell.name for cell in self.cells], self.links)
        last = max(self.rank.values())
        self.rank |= {id: last for id in self.rank if self.items[id].kind is Kind.SINK}

    def _flow(self, edge: Edge, turn: int = 0) -> Link:
        """One of the parallel lines to a child that is connected several times."""
        room = min(self.sizes[edge.start].width, self.sizes[edge.end].width)
        shift = (turn - (edge.times - 1) / 2) * min(PARALLEL, room / (edge.times + 1))
        return Link(edge.start, edge.end, shift, shift)

    def _use(self, edge: Edge, first: bool) -> Link:
        """A shared store is below the first of its processors and above the later ones."""
        return Link(edge.start, edge.end) if first else Link(edge.end, edge.start)

    def _stores(self, id: str) -> list[str]:
        return [edge.end for edge in self.owned if edge.start == id]

    def _cell(self, id: str) -> Cell:
        size, stores = self.sizes[id], [self.sizes[store] for store in self._stores(id)]
        column = max((BESIDE + store.width for store in stores), default=0)
        stacked = sum(store.height + STACKED for store in stores) - STACKED
        return Cell(id, size.width / 2, size.width / 2 + column, max(size.height, stacked))

    def shapes(self, placement: Placement) -> list[Shape]:
        shapes = []
        for cell in self.cells:
            x, y = placement.spots[cell.name]
            size = self.sizes[cell.name]
            shapes.append(self._shape(cell.name, x - cell.left, y + (cell.height - size.height) / 2))
            stacked = sum(self.sizes[store].height + STACKED for store in self._stores(cell.name)) - STACKED
            y += (cell.height - stacked) / 2
            for store in self._stores(cell.name):
                shapes.append(self._shape(store, x + cell.left + BESIDE, y))
                y += self.sizes[store].height + STACKED
        return shapes

    def _shape(self, id: str, x: float, y: float) -> Shape:
        size = self.sizes[id]
        return Shape(self.items[id], Rect(x, y, size.width, size.height), size.lines)

    def routes(self, placement: Placement) -> list[Route]:
        rects = {shape.item.id: shape.rect for shape in self.shapes(placement)}
        routes = []
        for edge in self.owned:
            start, end = rects[edge.start], rects[edge.end]
            path = sideways(start.x + start.width, start.y + start.height / 2, end.x, end.y + end.height / 2)
            routes.append(Route(edge, path))
        for (edge, _), link, runs in zip(self.drawn, self.links, placement.runs, strict=True):
            touching = _touching(runs, rects[link.start], rects[link.end])
            routes.append(Route(edge, through(_aside(touching, edge, link) if edge.state else touching)))
        return routes


def _touching(runs: list[Run], start: Rect, end: Rect) -> list[Run]:
    """The runs, extended to the shapes where these are lower than their cells."""
    first, *lanes, last = runs
    return [Run(first.x, start.y + start.height, first.end), *lanes, Run(last.x, last.start, end.y)]


def _aside(runs: list[Run], edge: Edge, link: Link) -> list[Run]:
    first, *lanes, last = runs
    if link.start == edge.start:
        return [replace(first, x=first.x + _towards(first, (*lanes, last)[0])), *lanes, last]
    return [first, *lanes, replace(last, x=last.x + _towards(last, (first, *lanes)[-1]))]


def _towards(run: Run, other: Run) -> float:
    return max(-ASIDE, min(ASIDE, other.x - run.x))
