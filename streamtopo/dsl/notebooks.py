"""Topologies draw themselves in notebooks."""

from __future__ import annotations

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.topology import Topology


def drawn(topology: Topology | StreamsBuilder) -> str:
    """The SVG of `streamtopo graph`."""
    from streamtopo.drawing import FORMATS  # not needed where nothing is drawn

    return FORMATS["svg"](topology.build() if isinstance(topology, StreamsBuilder) else topology)


def draw_in_notebooks() -> None:
    """Give the classes the method that IPython looks for. They are below the drawing, so they do not know it."""
    for kind in (Topology, StreamsBuilder):
        setattr(kind, "_repr_svg_", drawn)  # noqa: B010 - type checkers need not see it
