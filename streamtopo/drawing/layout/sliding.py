"""The horizontal positions of cells in their rows: near the cells they are linked to, with few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from streamtopo.drawing.layout.rows import Cell

SWEEPS = 12
SETTLINGS = 60
STILL = 0.02


@dataclass(frozen=True, slots=True)
class Tie:
    """A pull on a cell: its anchor should be `shift` to the right of the other cell's anchor."""

    other: str
    shift: float
    weight: float


Ties = dict[tuple[str, int], list[Tie]]
"""The pulls on each cell from each direction (-1: the row above, 0: the same row, 1: the row below)."""


class Sliding:
    """Rows of ordered cells, each with an x; sweeps reorder and move them."""

    def __init__(self, rows: Sequence[Sequence[str]], cells: dict[str, Cell], ties: Ties, gap: float) -> None:
        self.rows = [list(row) for row in rows]
        self.cells = cells
        self.ties = ties
        self.gap = gap
        self.x: dict[str, float] = {}
        for row in self.rows:
            self._fit(row, dict.fromkeys(row, (0.0, 1.0)))

    def arrange(self) -> dict[str, float]:
        best, kept = self.crossings(), [list(row) for row in self.rows]
        for sweep in range(SWEEPS):
            self._sweep(-1 if sweep % 2 == 0 else 1, reorder=True)
            if (found := self.crossings()) < best:
                best, kept = found, [list(row) for row in self.rows]
        self.rows = kept
        for sweep in range(SWEEPS):
            self._sweep(-1 if sweep % 2 == 0 else 1, reorder=False)
        for _ in range(SETTLINGS):
            if self._settle() < STILL:
                break
        return self.x

    def crossings(self) -> int:
        place = {name: index for row in self.rows for index, name in enumerate(row)}
        return sum(self._crossings_below(row, place) for row in self.rows)

    def _crossings_below(self, row: list[str], place: dict[str, int]) -> int:
        ends = [(index, tie.shift, place[tie.other]) for index, name in enumerate(row) for tie in self.ties[name, 1]]
        seen: list[int] = []
        count = 0
        for _, _, end in sorted(ends):
            count += len(seen) - bisect_right(seen, end)
            insort(seen, end)
        return count

    def _sweep(self, direction: int, *, reorder: bool) -> None:
        for row in self.rows if direction < 0 else reversed(self.rows):
            wanted = {name: self._wanted(name, (direction, 0)) for name in row}
            if reorder:
                row.sort(key=lambda name: wanted[name][0])
            self._fit(row, wanted)

    def _settle(self) -> float:
        """Apply the pulls from both sides; return the longest distance that a cell moved."""
        before = dict(self.x)
        for row in self.rows:
            self._fit(row, {name: self._wanted(name, (-1, 0, 1)) for name in row})
        return max((abs(x - before[name]) for name, x in self.x.items()), default=0)

    def _wanted(self, name: str, directions: Iterable[int]) -> tuple[float, float]:
        pulls = [tie for direction in directions for tie in self.ties[name, direction]]
        weight = sum(tie.weight for tie in pulls)
        if not weight:
            return self.x[name], 0.1
        return sum((self.x[tie.other] + tie.shift) * tie.weight for tie in pulls) / weight, weight

    def _fit(self, row: list[str], wanted: dict[str, tuple[float, float]]) -> None:
        apart = [self.cells[a].right + self.gap + self.cells[b].left for a, b in pairwise(row)]
        offsets = list(accumulate(apart, initial=0.0))
        targets = [(wanted[name][0] - offset, wanted[name][1]) for name, offset in zip(row, offsets, strict=False)]
        for name, offset, position in zip(row, offsets, ascending(targets), strict=False):
            self.x[name] = position + offset


def ascending(targets: Sequence[tuple[float, float]]) -> list[float]:
    """The rising numbers nearest to the (target, weight) pairs, by least squares: pool adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for target, weight in targets:
        pools.append((target, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, heavy, many), (b, light, few) = pools[-2:]
            pools[-2:] = [((a * heavy + b * light) / (heavy + light), heavy + light, many + few)]
    return [value for value, _, count in pools for _ in range(count)]


def ties_of(pulls: Iterable[tuple[str, str, int, float, float]]) -> Ties:
    """The pulls of (cell, other, direction of the other, shift, weight), and of each the other way round."""
    ties: Ties = defaultdict(list)
    for name, other, direction, shift, weight in pulls:
        ties[name, direction].append(Tie(other, shift, weight))
        ties[other, -direction].append(Tie(name, -shift, weight))
    return ties
