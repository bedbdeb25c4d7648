"""What a commit of a rollup hands to a sink, and what a sink promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Delivery:
    """What a commit changed, or, for a sink that missed one, the whole table."""

    table: str
    """The table's id: another one is another table, though it has the same name."""
    commit: int
    offsets: str
    """What has been read of the topics, as JSON."""
    rows: DataFrame
    replaced: DataFrame | None
    """The rows that these take the place of; None stands for all that the sink has."""
    spans: Sequence[date] | None
    """The starts of the spans that were computed, dates or times; None stands for all."""


class Sink(Protocol):
    """Takes a delivery and remembers its number, both or neither."""

    def delivered(self, table: str) -> int:
        """The last commit of this table that it has; 0 if none."""
        ...

    def deliver(self, delivery: Delivery) -> None: ...
