"""The definition of a workload: a question, its input, and two ways to the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.engine import Side
from benchmarks.results import Look
from streamtopo.logs import Log


@dataclass(frozen=True)
class Workload:
    name: str
    question: str
    records: int
    """The number of records by default."""
    prepare: Callable[[Log, int], None]
    """Create the topics and append this many records."""
    engine: Side
    bare: Side
    results: Look
    unit: str = "records"
    units: int = 1
    """The number of units per record."""
