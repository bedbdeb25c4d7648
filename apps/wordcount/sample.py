"""Endless sentences for the demo: those of `sentences.txt`, shuffled, in the same order each time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path


def sentences() -> Iterator[tuple[str, None, str]]:
    lines = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
    dice = random.Random(1)
    while True:
        yield "sentences", None, dice.choice(lines)
