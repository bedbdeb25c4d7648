"""What a workload is: a question, its input, and two ways to the same results."""

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
    """How many there are unless asked for otherwise."""
    prepare: Callable[[Log, int], None]
    """Create the topics and fill in so many records."""
    engine: Side
    bare: Side
    results: Look
    unit: str = "records"
    units: int = 1
    """How many units a record has."""
