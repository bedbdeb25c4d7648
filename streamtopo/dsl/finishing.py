"""Tables made by ready aggregators: what their rows are for those who read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamtopo.aggregators import Aggregator
from streamtopo.errors import TopologyError

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable


def finished(aggregator: Aggregator, table: KTable) -> KTable:
    """The table itself, or one of what the aggregator makes of its rows."""
    if aggregator.finish is None:
        return table
    return table.map_values(aggregator.finish, value=aggregator.finished)


def unsaid(key: Any, one: Any, other: Any) -> Any:
    """Stands where a function is left out because an aggregator brings it."""
    raise TopologyError("aggregate was given init but no adder; give aggregate(init, adder), or a ready aggregator")
