"""The legend of an SVG drawing: one line that explains its shapes."""

from __future__ import annotations

from collections.abc import Collection

from streamtopo.drawing.formats.shapes import outline
from streamtopo.drawing.graph import Kind
from streamtopo.drawing.layout.block import Rect

ENTRIES = (
    ("topic", Kind.TOPIC, "topic", 76),
    ("internal", Kind.INTERNAL, "internal topic", 128),
    ("source", Kind.SOURCE, "source or sink", 130),
    ("processor", Kind.PROCESSOR, "processor", 104),
    ("store", Kind.STORE, "store", 70),
)
HEIGHT = 44.0


def extent(kinds: Collection[Kind]) -> float:
    return float(sum(advance for _, kind, _, advance in ENTRIES if kind in kinds))


def legend(kinds: Collection[Kind], x: float, y: float) -> str:
    """The entries of these kinds, starting at x, centred at y."""
    drawn = []
    for style, kind, label, advance in ENTRIES:
        if kind not in kinds:
            continue
        swatch = outline(kind, Rect(x, y - 7, 24, 14))
        drawn.append(f'<g class="{style}">{swatch}</g><text class="label" x="{x + 30:g}" y="{y + 4:g}">{label}</text>')
        x += advance
    return f'<g class="legend">{"".join(drawn)}</g>'
