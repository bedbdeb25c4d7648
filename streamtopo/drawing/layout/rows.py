"""The row of each cell of a directed graph, and the stops of links that pass through rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """Something to place, with its extent to both sides of its anchor and its height."""

    name: str
    left: float
    right: float
    height: float


@dataclass(frozen=True, slots=True)
class Link:
    """A link from the bottom of one cell to the top of another, at these distances from their anchors."""

    start: str
    end: str
    leaves: float = 0
    enters: float = 0


LANE = 7.0
"""The space that a link through a row needs on each side."""


def ranks(names: Iterable[str], links: Sequence[Link]) -> dict[str, int]:
    """The length of the longest path to each cell, ignoring links that close a cycle."""
    order = _topological(list(names), links)
    place = {name: index for index, name in enumerate(order)}
    rank = dict.fromkeys(order, 0)
    for link in sorted(links, key=lambda link: place[link.start]):
        if place[link.start] < place[link.end]:
            rank[link.end] = max(rank[link.end], rank[link.start] + 1)
    return rank


def _topological(names: list[str], links: Sequence[Link]) -> list[str]:
    """Names in an order in which links point forward, except those that close a cycle."""
    children: dict[str, list[str]] = defaultdict(list)
    for link in links:
        children[link.start].append(link.end)
    entered = {link.end for link in links}
    seen: set[str] = set()
    finished: list[str] = []
    for root in sorted(names, key=lambda name: name in entered):
        _visit(root, children, seen, finished)
    return finished[::-1]


def _visit(root: str, children: dict[str, list[str]], seen: set[str], finished: list[str]) -> None:
    if root in seen:
        return
    seen.add(root)
    path = [(root, iter(children[root]))]
    while path:
        name, rest = path[-1]
        child = next((child for child in rest if child not in seen), None)
        if child is None:
            finished.append(name)
            path.pop()
        else:
            seen.add(child)
            path.append((child, iter(children[child])))


def stops(link: Link, number: int, rank: dict[str, int]) -> tuple[list[str], dict[str, int]]:
    """The cells that a link visits, and the rows of its lanes; a backward link also has lanes next to both ends."""
    first, last = rank[link.start], rank[link.end]
    passed = range(first + 1, last) if first < last else range(first, last - 1, -1)
    lanes = {f"lane{number}at{row}": row for row in passed}
    return [link.start, *lanes, link.end], lanes
