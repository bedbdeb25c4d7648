"""What a commit of a rollup sends to a sink, and what a sink guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Delivery:
    """The changes of a commit, or the whole table for a sink that missed a commit."""

    table: str
    """The id of the table: a table with another id is a different one, even if its name is the same."""
    commit: int
    offsets: str
    """The offsets that have been read of the topics, as JSON."""
    rows: DataFrame
    replaced: DataFrame | None
    """The rows that these replace; None means all rows of the sink."""
    spans: Sequence[date] | None
    """The starts of the computed spans, dates or times; None means all spans."""


class Sink(Protocol):
    """Takes a delivery and stores its number, both or neither."""

    def delivered(self, table: str) -> int:
        """The last commit of this table that the sink has; 0 if none."""
        ...

    def deliver(self, delivery: Delivery) -> None: ...
