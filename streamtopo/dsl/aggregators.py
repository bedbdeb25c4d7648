"""Tables of ready-made aggregators: their rows, converted to results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamtopo.aggregators import Aggregator
from streamtopo.errors import TopologyError

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable


def with_finish(aggregator: Aggregator, table: KTable) -> KTable:
    """The table, or a table of the aggregator's results if they differ from its rows."""
    if aggregator.finish is None:
        return table
    return table.map_values(aggregator.finish, value=aggregator.finished)


def not_given(key: Any, one: Any, other: Any) -> Any:
    """The default of functions that a ready-made aggregator brings."""


def check_given(**functions: Callable[..., Any]) -> None:
    for what, function in functions.items():
        if function is not_given:
            raise TopologyError(
                f"aggregate was given no {what}; give aggregate(init, {', '.join(functions)}), or a ready-made one"
            )
