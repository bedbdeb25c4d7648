"""The lines of an item's name and the size of the shape around them."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.drawing.graph import Item, Kind
from streamtopo.drawing.layout.words import width, wrapped


@dataclass(frozen=True, slots=True)
class Look:
    """The text size of a kind of item, and the space around it; `cap` is the height of a cylinder's lid."""

    text: float
    beside: float
    above: float
    cap: float = 0


LOOKS = {
    Kind.TOPIC: Look(12, 24, 10),
    Kind.INTERNAL: Look(12, 24, 10),
    Kind.SOURCE: Look(10, 11, 5),
    Kind.PROCESSOR: Look(12, 16, 11),
    Kind.SINK: Look(10, 11, 5),
    Kind.STORE: Look(12, 15, 7, cap=6),
}
NOTE = 10.0
"""The size of the text below a name."""
LEADING = 1.35


@dataclass(frozen=True, slots=True)
class Size:
    width: float
    height: float
    lines: tuple[str, ...]


def size_of(item: Item) -> Size:
    look = LOOKS[item.kind]
    lines = wrapped(item.name)
    widest = max([width(line, look.text) for line in lines] + [width(item.note, NOTE)])
    height = len(lines) * look.text * LEADING + (NOTE * LEADING if item.note else 0)
    # A cylinder shows its lid twice: the whole of it at the top, its front half at the bottom.
    return Size(round(widest + 2 * look.beside), round(height + 2 * look.above + 3 * look.cap), lines)
