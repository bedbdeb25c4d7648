"""Drawings of a topology, by format: text, mermaid, dot, json and svg."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.drawing.formats.as_json import as_json
from streamtopo.drawing.formats.dot import dot
from streamtopo.drawing.formats.mermaid import mermaid
from streamtopo.drawing.formats.svg import svg
from streamtopo.topology import Topology

FORMATS: dict[str, Callable[[Topology], str]] = {
    "text": Topology.describe,
    "mermaid": mermaid,
    "dot": dot,
    "json": as_json,
    "svg": svg,
}
