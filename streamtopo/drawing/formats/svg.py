"""A topology as one self-contained SVG picture."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from streamtopo.drawing.formats.colours import STYLE
from streamtopo.drawing.formats.legend import HEIGHT, extent, legend
from streamtopo.drawing.formats.shapes import drawn
from streamtopo.drawing.graph import Graph, graph_of
from streamtopo.drawing.layout.block import Route, Shape
from streamtopo.drawing.layout.layout import Frame, Picture, picture_of
from streamtopo.drawing.layout.words import legible, width
from streamtopo.topology import Topology

MARGIN = 28.0
HEADING = 46.0
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
    'markerUnits="userSpaceOnUse"><path class="head" d="M0.5,0.8L7.5,4L0.5,7.2L2,4z"/></marker>'
)


def svg(topology: Topology) -> str:
    graph = graph_of(topology)
    return "\n".join(_document(graph, picture_of(graph))) + "\n"


def _document(graph: Graph, picture: Picture) -> Iterator[str]:
    name, summary = graph.application_id, _summary(graph)
    kinds = {shape.item.kind for shape in picture.shapes}
    inside = max(picture.width, extent(kinds), width(name, 16))
    wide, high = inside + 2 * MARGIN, HEADING + picture.height + HEIGHT + 2 * MARGIN
    label = f"Topology of {name}: {summary}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">'
    )
    yield f"<title>Topology of {name}</title><style>{STYLE}</style><defs>{ARROW}</defs>"
    yield '<rect class="paper" width="100%" height="100%"/>'
    yield f'<text class="label heading" x="{MARGIN:g}" y="{MARGIN + 14:g}">{name}</text>'
    yield f'<text class="label" x="{MARGIN:g}" y="{MARGIN + 32:g}">{summary}</text>'
    yield f'<g transform="translate({MARGIN + (inside - picture.width) / 2:.1f},{MARGIN + HEADING:.1f})">'
    yield from map(_frame, picture.frames)
    names = {shape.item.id: legible(shape.item.name) for shape in picture.shapes}
    yield from (_route(route, names) for route in picture.routes)
    yield from map(_shape, picture.shapes)
    yield "</g>"
    yield legend(kinds, MARGIN, high - MARGIN - HEIGHT / 2 + 8)
    yield "</svg>"


def _summary(graph: Graph) -> str:
    stores = sum(item.id.startswith("store") for box in graph.boxes for item in box.items)
    counts = [(len(graph.boxes), "subtopology", "subtopologies"), (stores, "store", "stores")]
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


def _frame(frame: Frame) -> str:
    rect, title = frame.rect, f"Subtopology {frame.number}"
    return (
        f'<g class="box"><rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" '
        f'height="{rect.height:.1f}" rx="12"/>'
        f'<text class="label" x="{rect.x + 14:.1f}" y="{rect.y + 22:.1f}">{title}</text></g>'
    )


def _route(route: Route, names: dict[str, str]) -> str:
    edge, (x, y) = route.edge, route.origin
    kind = ' state"' if edge.state else '" marker-end="url(#arrow)"'
    moved = f' transform="translate({x:.1f},{y:.1f})"' if (x, y) != (0, 0) else ""
    joint = "uses" if edge.state else "to"
    title = f"{names[edge.start]} {joint} {names[edge.end]}" + (f", {edge.times} times" if edge.times > 1 else "")
    return f'<path class="edge{kind}{moved} d="{route.path}"><title>{escape(title)}</title></path>'


def _shape(shape: Shape) -> str:
    item = shape.item
    title = legible(f"{item.kind.value} {item.name}" + (f": {item.details}" if item.details else ""))
    return f'<g class="{item.kind.name.lower()}"><title>{escape(title)}</title>{drawn(shape)}</g>'
