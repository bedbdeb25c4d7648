"""The shape of a described topology: its text read as a graph, without the generated names of nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from hashlib import sha256
from typing import NamedTuple

_LINE = re.compile(r"\s*(Sub-topology|Source|Processor|Sink|-->|<--):? (.*)")
_NODE = re.compile(r"(\S+) \((topics|topic|stores|extractor class): (.*)\)")


class Edge(NamedTuple):
    start: str
    label: str
    end: str


class Graph(NamedTuple):
    labels: dict[str, str]
    edges: list[Edge]


def shape(description: str, named: Collection[str]) -> Counter[str]:
    """Return equal counts for descriptions that differ only in names; the names in `named` must agree.

    Every vertex is coloured by its label, then repeatedly by its neighbours' colours.
    """
    labels, edges = graph_of(description, named)
    colours = dict(labels)
    for _ in labels:
        seen: dict[str, list[str]] = {vertex: [] for vertex in labels}
        for start, label, end in edges:
            seen[start].append(f"{label} {colours[end]}")
            seen[end].append(f"{colours[start]} {label}")
        colours = {vertex: _digest(colours[vertex], *sorted(seen[vertex])) for vertex in labels}
    return Counter(colours.values())


def graph_of(description: str, named: Collection[str]) -> Graph:
    """Return sub-topologies, nodes, topics and stores, and the edges between them."""
    labels: dict[str, str] = {}
    edges: list[Edge] = []
    part = node = ""
    for kind, rest in (found.groups() for found in map(_LINE.match, description.splitlines()) if found):
        if kind == "Sub-topology":
            part = f"part {rest}"
            labels[part] = "global sub-topology" if "global" in rest else "sub-topology"
        elif kind in ("-->", "<--"):
            edges.extend(Edge(f"node {node}", kind, f"node {other}") for other in _names(rest))
        else:
            node, use, things = _parsed(rest)
            labels[f"node {node}"] = f"{kind} by {use}" if use == "extractor class" else kind
            edges.append(Edge(part, "has", f"node {node}"))
            for thing in () if use == "extractor class" else _names(things):
                labels[f"{use[:5]} {thing}"] = f"{use[:5]} {thing if thing in named else ''}"
                edges.append(Edge(f"node {node}", use, f"{use[:5]} {thing}"))
    return Graph(labels, edges)


def _parsed(rest: str) -> tuple[str, str, str]:
    found = _NODE.fullmatch(rest)
    if found is None:
        raise ValueError(f"this is not a line of a description: {rest}")
    return found[1], found[2], found[3]


def _names(text: str) -> list[str]:
    return [name for name in re.split(r", *", text.strip("[]")) if name not in ("", "none")]


def _digest(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()
