"""Tables made by ready aggregators: what their rows are for those who read them."""

from __future__ import annotations

from collections.abc import Callable
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


def check_said(**functions: Callable[..., Any]) -> None:
    for what, function in functions.items():
        if function is unsaid:
            raise TopologyError(
                f"aggregate was given no {what}; give aggregate(init, {', '.join(functions)}), or a ready aggregator"
            )
