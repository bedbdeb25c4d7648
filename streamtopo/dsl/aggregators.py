"""The functions of aggregations: the user's, or those of ready-made aggregators, whose rows become results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from streamtopo.aggregators import Aggregator
from streamtopo.errors import TopologyError
from streamtopo.records.type_parameters import V
from streamtopo.serdes import SerdeLike
from streamtopo.topology.functions import check_function

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable


ADDER, MERGER = "adder(key, value, row)", "merger(key, row, session)"
"""How they are called."""


class Initializer(Protocol[V]):
    """Returns the first row. It is a protocol because mypy then knows the type of rows in an adder that is a lambda."""

    def __call__(self) -> V: ...


def with_finish(aggregator: Aggregator, table: KTable) -> KTable:
    """The table, or a table of the aggregator's results if they differ from its rows."""
    if aggregator.finish is None:
        return table
    return table.map_values(aggregator.finish, value=aggregator.finished)


def not_given(key: Any, one: Any, other: Any) -> Any:
    """The default of functions that a ready-made aggregator brings."""


def check_ready_made(value: SerdeLike | None, *functions: Callable[..., Any]) -> None:
    """A ready-made aggregator brings its functions and the type of its rows."""
    if value is not None:
        raise TopologyError(
            "aggregate takes no value= with a ready-made aggregator, which has its own type of rows; "
            "give value= to the aggregator: aggregate(top_k(3, value=list[float]))"
        )
    if any(function is not not_given for function in functions):
        raise TopologyError("aggregate takes no functions with a ready-made aggregator, which has its own")


def check_aggregation(init: Callable[[], Any], **functions: Callable[..., Any]) -> None:
    """Functions by what they are: `adder`, and for sessions `merger`."""
    for what, function in functions.items():
        if function is not_given:
            raise TopologyError(
                f"aggregate was given no {what}; give aggregate(init, {', '.join(functions)}), or a ready-made one"
            )
    check_function("aggregate", "init()", init)
    for what, function in functions.items():
        check_function("aggregate", ADDER if what == "adder" else MERGER, function, returns="row")
