"""The definition of an experiment: a question about several processes, with more than a rate as its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.places import Site
from benchmarks.results import Results


class Observed(NamedTuple):
    measures: Mapping[str, float]
    """By name, which includes the unit."""
    results: Results


Side = Callable[[Site, int], Observed]
"""Run once with this many records, in an empty place."""


@dataclass(frozen=True)
class Experiment:
    name: str
    question: str
    records: int
    """The number of records by default."""
    sides: Mapping[str, Side]
    """They are run in turn, and must give the same results."""
    log: str = ""
    """Set if each side creates its own log; otherwise the embedded log given as an option is used."""


def percentile(values: Sequence[float], share: int) -> float:
    """Return the value that this many percent of the values do not exceed."""
    return sorted(values)[-(-len(values) * share // 100) - 1]
