"""What an experiment is: a question about processes at work side by side, with more than a rate as its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.places import Site
from benchmarks.results import Results


class Observed(NamedTuple):
    measures: Mapping[str, float]
    """By name, with the unit in it."""
    results: Results


Side = Callable[[Site, int], Observed]
"""One run with so many records, in a place where nothing is yet."""


@dataclass(frozen=True)
class Experiment:
    name: str
    question: str
    records: int
    """How many there are unless asked for otherwise."""
    sides: Mapping[str, Side]
    """They take turns, and leave the same results."""
    log: str = ""
    """Where each brings one of its own; else it is the embedded log that was asked for."""


def percentile(values: Sequence[float], share: int) -> float:
    """The value that so many of a hundred do not exceed."""
    return sorted(values)[-(-len(values) * share // 100) - 1]
