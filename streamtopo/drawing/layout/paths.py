"""SVG path data for the lines of a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from streamtopo.drawing.layout.placement import Run

BULGE = 40.0
"""The length of the handles of a half turn; the turn itself is three quarters as high."""

STRAIGHT = 0.3
"""A shift that is too small to see."""


def through(runs: Sequence[Run]) -> str:
    """A line along each run, with smooth curves between them."""
    first, last = runs[0], runs[-1]
    path = [f"M{first.x:.1f},{first.start:.1f}V{first.end:.1f}"]
    for before, after in pairwise(runs):
        middle = (before.end + after.start) / 2
        if _upward(after) and before is first:
            middle = before.end + BULGE
        elif _upward(before) and after is last:
            middle = after.start - BULGE
        path.append(_curve(before.x, before.end, middle, after) + f"V{after.end:.1f}")
    return "".join(path)


def sideways(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"M{x:.1f},{y:.1f}C{middle:.1f},{y:.1f} {middle:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}"


def _upward(run: Run) -> bool:
    return run.end < run.start


def _curve(x: float, y: float, middle: float, after: Run) -> str:
    if abs(x - after.x) < STRAIGHT and min(y, after.start) <= middle <= max(y, after.start):
        return f"V{after.start:.1f}"
    return f"C{x:.1f},{middle:.1f} {after.x:.1f},{middle:.1f} {after.x:.1f},{after.start:.1f}"
