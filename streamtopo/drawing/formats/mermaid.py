"""A topology as a Mermaid flowchart, for Markdown files and pages that draw it."""

from __future__ import annotations

import re

from streamtopo.drawing.graph import Edge, Graph, Item, Kind, graph_of
from streamtopo.topology import Topology

_SHAPES = {
    Kind.TOPIC: ("[[", "]]"),
    Kind.INTERNAL: ("[[", "]]"),
    Kind.SOURCE: ("([", "])"),
    Kind.PROCESSOR: ("(", ")"),
    Kind.SINK: ("([", "])"),
    Kind.STORE: ("[(", ")]"),
}

_CLASSES = {
    Kind.TOPIC: "fill:#d8f3e6,stroke:#12855c,color:#0b3d2b",
    Kind.INTERNAL: "fill:#fdf1d3,stroke:#b7791f,color:#5c3b09,stroke-dasharray:5 4",
    Kind.SOURCE: "fill:#eef1f5,stroke:#8592a6,color:#3b4656",
    Kind.PROCESSOR: "fill:#dfeafe,stroke:#2f6bd8,color:#12326b",
    Kind.SINK: "fill:#eef1f5,stroke:#8592a6,color:#3b4656",
    Kind.STORE: "fill:#eee4fd,stroke:#7c4dcc,color:#3c1f70",
}

_BOX = "fill:#f6f8fb,stroke:#d5dce6,color:#3b4656"


def mermaid(topology: Topology) -> str:
    graph = graph_of(topology)
    lines = [*_outside(graph), *_boxes(graph), *map(_edge, graph.edges), *_classes(graph)]
    return "flowchart TD\n" + "".join(f"  {line}\n" for line in lines)


def escaped(text: str) -> str:
    """Escape Mermaid's own syntax by character numbers, its only kind of escape; `#96;` is a backtick."""
    return re.sub(r"[^A-Za-z0-9 ._,:/+-]", lambda match: f"#{ord(match[0])};", text)


def _outside(graph: Graph) -> list[str]:
    return [_item(item) for item in graph.outside]


def _boxes(graph: Graph) -> list[str]:
    lines: list[str] = []
    for box in graph.boxes:
        lines.append(f'subgraph box{box.number}["Subtopology {box.number}"]')
        lines.extend(f"  {_item(item)}" for item in box.items)
        lines.append("end")
    return lines


def _item(item: Item) -> str:
    before, after = _SHAPES[item.kind]
    note = f"<br/><small>{escaped(item.note)}</small>" if item.note else ""
    return f'{item.id}{before}"{escaped(item.name)}{note}"{after}'


def _edge(edge: Edge) -> str:
    if edge.state:
        return f"{edge.start} -.- {edge.end}"
    times = f'|"{edge.times} times"|' if edge.times > 1 else ""
    return f"{edge.start} -->{times} {edge.end}"


def _classes(graph: Graph) -> list[str]:
    items = [*graph.outside, *(item for box in graph.boxes for item in box.items)]
    boxes = ",".join(f"box{box.number}" for box in graph.boxes)
    lines = [f"classDef box {_BOX}", f"class {boxes} box"]
    for kind, style in _CLASSES.items():
        members = ",".join(item.id for item in items if item.kind is kind)
        if members:
            lines += [f"classDef {kind.name.lower()} {style}", f"class {members} {kind.name.lower()}"]
    return lines
