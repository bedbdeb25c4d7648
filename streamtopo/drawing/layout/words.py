"""The widths of names, and how long names are broken into lines; all characters have the same width."""

from __future__ import annotations

import re
import unicodedata

ADVANCE = 0.61
"""The width of a character divided by its font size; monospaced fonts have 0.55 to 0.602."""


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def width(text: str, size: float) -> float:
    return columns(text) * size * ADVANCE


def wrapped(name: str, limit: int = 32) -> tuple[str, ...]:
    """The lines of a name: as few as the limit allows, of similar lengths, broken after separators."""
    name = legible(name)
    fewest = len(_packed(name, limit))
    return next(lines for narrow in range(1, limit + 1) if len(lines := _packed(name, narrow)) <= fewest)


def legible(text: str) -> str:
    """The text with white space as single blanks, and with a replacement character for each one that XML forbids."""
    blank = re.sub(r"\s+", " ", text).strip() or " "
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", blank)


def _packed(name: str, limit: int) -> tuple[str, ...]:
    lines = [""]
    for word in re.findall(r"[^-._ ]*[-._ ]|[^-._ ]+", name):
        for piece in (word[start : start + limit] for start in range(0, len(word), limit)):
            if columns(lines[-1] + piece) <= limit:
                lines[-1] += piece
            else:
                lines.append(piece)
    return tuple(line for line in lines if line)
