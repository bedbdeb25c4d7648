"""The outline of each kind of item, with the lines of its name."""

from __future__ import annotations

from xml.sax.saxutils import escape

from streamtopo.drawing.graph import Kind
from streamtopo.drawing.layout.block import Rect, Shape
from streamtopo.drawing.layout.sizes import LEADING, LOOKS, NOTE

PIPES = (Kind.TOPIC, Kind.INTERNAL)
BEND = 7.0


def drawn(shape: Shape) -> str:
    return outline(shape.item.kind, shape.rect) + _text(shape)


def outline(kind: Kind, rect: Rect) -> str:
    if kind in PIPES:
        return _pipe(rect)
    if kind is Kind.STORE:
        return _cylinder(rect)
    radius = 8 if kind is Kind.PROCESSOR else min(rect.height / 2, 11)
    return (
        f'<rect class="shape" x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" '
        f'height="{rect.height:.1f}" rx="{radius:g}"/>'
    )


def _pipe(rect: Rect) -> str:
    """A horizontal cylinder: records go in on one side."""
    left, right = rect.x + BEND, rect.x + rect.width - BEND
    top, bottom = rect.y, rect.y + rect.height
    end = f"A{BEND:g},{rect.height / 2:.1f} 0 0 "
    return (
        f'<path class="shape" d="M{left:.1f},{top:.1f}H{right:.1f}{end}1 {right:.1f},{bottom:.1f}'
        f'H{left:.1f}{end}1 {left:.1f},{top:.1f}z"/>'
        f'<path class="shape lid" d="M{right:.1f},{top:.1f}{end}0 {right:.1f},{bottom:.1f}"/>'
    )


def _cylinder(rect: Rect) -> str:
    lid = min(LOOKS[Kind.STORE].cap, rect.height / 5)
    top, bottom = rect.y + lid, rect.y + rect.height - lid
    half = f"A{rect.width / 2:.1f},{lid:g} 0 0 "
    left, right = f"{rect.x:.1f}", f"{rect.x + rect.width:.1f}"
    return (
        f'<path class="shape" d="M{left},{top:.1f}{half}1 {right},{top:.1f}V{bottom:.1f}'
        f'{half}1 {left},{bottom:.1f}z"/>'
        f'<path class="shape lid" d="M{left},{top:.1f}{half}0 {right},{top:.1f}"/>'
    )


def _text(shape: Shape) -> str:
    look = LOOKS[shape.item.kind]
    # The lid of a pipe is at its right, so its middle is a little to the left.
    lid = BEND / 2 if shape.item.kind in PIPES else 0
    x = shape.rect.x + shape.rect.width / 2 - lid
    y = shape.rect.y + look.above + 2 * look.cap + look.text * 1.05
    lines = []
    for line in shape.lines:
        lines.append(f'<tspan x="{x:.1f}" y="{y:.1f}">{escape(line)}</tspan>')
        y += look.text * LEADING
    if shape.item.note:
        y += (NOTE - look.text) * LEADING / 2
        lines.append(f'<tspan class="note" x="{x:.1f}" y="{y:.1f}">{escape(shape.item.note)}</tspan>')
    return f"<text>{''.join(lines)}</text>"
