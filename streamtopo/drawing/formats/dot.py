"""A topology in the language of Graphviz, with a cluster for each subtopology."""

from __future__ import annotations

from streamtopo.drawing.graph import Box, Edge, Item, Kind, graph_of
from streamtopo.drawing.layout.words import wrapped
from streamtopo.topology import Topology

_STYLES = {
    Kind.TOPIC: 'shape=box, style=filled, fillcolor="#d8f3e6", color="#12855c"',
    Kind.INTERNAL: 'shape=box, style="filled,dashed", color="#b7791f", fillcolor="#fdf1d3"',
    Kind.SOURCE: 'shape=box, style="filled,rounded", fillcolor="#eef1f5", color="#8592a6", fontsize=9',
    Kind.PROCESSOR: 'shape=ellipse, style=filled, fillcolor="#dfeafe", color="#2f6bd8"',
    Kind.SINK: 'shape=box, style="filled,rounded", fillcolor="#eef1f5", color="#8592a6", fontsize=9',
    Kind.STORE: 'shape=cylinder, style=filled, fillcolor="#eee4fd", color="#7c4dcc"',
}


def dot(topology: Topology) -> str:
    graph = graph_of(topology)
    lines = [
        "digraph {",
        '  graph [rankdir=TB, fontname="Helvetica"];',
        '  node [fontname="Helvetica", fontsize=11];',
        '  edge [color="#64748b"];',
        *(f"  {_item(item)}" for item in graph.outside),
        *(line for box in graph.boxes for line in _cluster(box)),
        *(f"  {_edge(edge)}" for edge in graph.edges),
        "}",
    ]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A string of any characters; a backslash must be doubled or Graphviz reads `\\N` as the node's name."""
    plain = text.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\\", "\\\\").replace('"', '\\"')
    # Graphviz decodes HTML entities in every label, so an ampersand has to be one.
    return '"' + plain.replace("&", "&amp;").replace("\r", "\\n").replace("\n", "\\n") + '"'


def _cluster(box: Box) -> list[str]:
    return [
        f"  subgraph cluster_{box.number} {{",
        f'    label="Subtopology {box.number}"; labeljust=l; style="rounded,filled";',
        '    fillcolor="#f8fafc"; color="#94a3b8";',
        *(f"    {_item(item)}" for item in box.items),
        "  }",
    ]


def _item(item: Item) -> str:
    lines = [*wrapped(item.name), *([f"({item.note})"] if item.note else [])]
    tooltip = ": ".join(filter(None, [f"{item.kind.value} {item.name}", item.details]))
    return f"{item.id} [label={quoted(chr(10).join(lines))}, tooltip={quoted(tooltip)}, {_STYLES[item.kind]}];"


def _edge(edge: Edge) -> str:
    if edge.state:
        return f'{edge.start} -> {edge.end} [dir=none, style=dashed, color="#7c4dcc"];'
    times = f' [label="{edge.times} times"]' if edge.times > 1 else ""
    return f"{edge.start} -> {edge.end}{times};"
