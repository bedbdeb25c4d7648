"""A layered layout of cells and links: rows from top to bottom, few crossings, straight lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from streamtopo.drawing.layout.rows import LANE, Cell, Link, stops
from streamtopo.drawing.layout.sliding import Sliding, ties_of

TIP = 10.0
"""The length of the straight end of a link, for its arrow head."""
LONG, ONLY = 6.0, 3.0
"""How much more than others a link is kept straight: one between two lanes, and one that is alone at its ends."""


@dataclass(frozen=True, slots=True)
class Spacing:
    side: float
    between: float
    align: float
    """The vertical place of a cell that is lower than its row: 0 at the top, 0.5 in the middle."""


@dataclass(frozen=True, slots=True)
class Run:
    """A vertical piece of a link, downward or upward; curves join it to the next."""

    x: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Placement:
    """The x of every cell's anchor and the y of its top, and every link's runs; the origin is at (0, 0)."""

    spots: dict[str, tuple[float, float]]
    runs: list[list[Run]]
    width: float
    height: float


class _Grid:
    def __init__(self, cells: Sequence[Cell], links: Sequence[Link], rank: Mapping[str, int]) -> None:
        self.cells = {cell.name: cell for cell in cells}
        self.rank = {cell.name: rank[cell.name] for cell in cells}
        self.links = links
        self.paths: list[list[str]] = []
        for number, link in enumerate(links):
            path, lanes = stops(link, number, self.rank)
            self.paths.append(path)
            self.rank |= lanes
            self.cells |= {name: Cell(name, LANE, LANE, 0) for name in lanes}
        self.rows: list[list[str]] = [[] for _ in range(max(self.rank.values(), default=-1) + 1)]
        for name, row in self.rank.items():
            self.rows[row].append(name)

    def pulls(self) -> Iterator[tuple[str, str, int, float, float]]:
        for link, path in zip(self.links, self.paths, strict=True):
            last = len(path) - 2
            for index, (name, other) in enumerate(pairwise(path)):
                beside = self.rank[name] == self.rank[other]
                shift = (link.enters if index == last else 0) - (link.leaves if index == 0 else 0)
                if beside:
                    # A lane upward runs along the side of the cell at its start or end.
                    shift = self.cells[other if index else name].right * (1 if index else -1)
                weight = 0.5 if beside else LONG if 0 < index < last else self._pull(link)
                yield name, other, self.rank[other] - self.rank[name], shift, weight

    def _pull(self, link: Link) -> float:
        leaving = sum(other.start == link.start for other in self.links)
        entering = sum(other.end == link.end for other in self.links)
        return ONLY if leaving == entering == 1 else 1.0

    def bands(self, between: float, first: float) -> list[tuple[float, float]]:
        """The top and the bottom of every row."""
        bands = []
        top = first
        for row in self.rows:
            bottom = top + max(self.cells[name].height for name in row)
            bands.append((top, bottom))
            top = bottom + between
        return bands

    @property
    def returns(self) -> bool:
        return any(self.rank[link.start] >= self.rank[link.end] for link in self.links)


def place(cells: Sequence[Cell], links: Sequence[Link], rank: Mapping[str, int], spacing: Spacing) -> Placement:
    grid = _Grid(cells, links, rank)
    x = Sliding(grid.rows, grid.cells, ties_of(grid.pulls()), spacing.side).arrange()
    margin = spacing.between if grid.returns else 0
    bands = grid.bands(spacing.between, margin)
    left = min((x[name] - cell.left for name, cell in grid.cells.items()), default=0)
    right = max((x[name] + cell.right for name, cell in grid.cells.items()), default=0)
    spots = {}
    for name, cell in grid.cells.items():
        top, bottom = bands[grid.rank[name]]
        spots[name] = (x[name] - left, top + (bottom - top - cell.height) * spacing.align)
    runs = [_runs(grid, number, spots, bands) for number in range(len(links))]
    bottom = bands[-1][1] if bands else 0
    return Placement({cell.name: spots[cell.name] for cell in cells}, runs, right - left, bottom + margin)


def _runs(
    grid: _Grid, number: int, spots: dict[str, tuple[float, float]], bands: list[tuple[float, float]]
) -> list[Run]:
    link, path = grid.links[number], grid.paths[number]
    (x, top), (_, band_bottom) = spots[link.start], bands[grid.rank[link.start]]
    runs = [Run(x + link.leaves, top + grid.cells[link.start].height, band_bottom)]
    upward = grid.rank[link.start] >= grid.rank[link.end]
    for lane in path[1:-1]:
        start, end = bands[grid.rank[lane]]
        runs.append(Run(spots[lane][0], end, start) if upward else Run(spots[lane][0], start, end))
    (x, top), (band_top, _) = spots[link.end], bands[grid.rank[link.end]]
    return [*runs, Run(x + link.enters, band_top - TIP, top)]
