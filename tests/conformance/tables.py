"""The steps of a case on tables and grouped tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamtopo import KGroupedTable, KStream, KTable
from streamtopo.records import Chunk
from streamtopo.topology.operator import Operator
from tests.conformance.functions import function
from tests.conformance.values import ANY

if TYPE_CHECKING:
    from tests.conformance.topologies import Steps

Step = dict[str, Any]


def _filter(_: Steps, table: KTable, step: Step) -> KTable:
    return table.filter(function(step["fn"]), name=step.get("store"))


def _filter_not(_: Steps, table: KTable, step: Step) -> KTable:
    return table.filter_not(function(step["fn"]), name=step.get("store"))


def _map_values(_: Steps, table: KTable, step: Step) -> KTable:
    return table.map_values(function(step["fn"]), with_key=True, value=ANY, name=step.get("store"))


def _transform_values(_: Steps, table: KTable, step: Step) -> KTable:
    return table.transform_values(function(step["fn"]), value=ANY, name=step.get("store"))


def _to_stream(_: Steps, table: KTable, step: Step) -> KStream:
    """Return a stream with values of any type: a count is an integer, but the next step may return something else."""
    stream = table.to_stream(function(step["key_fn"]), key=ANY) if "key_fn" in step else table.to_stream()
    return KStream(stream.graph, stream.node, stream.key, ANY)


def _join_tables(steps: Steps, table: KTable, step: Step) -> KTable:
    joins: dict[str, Any] = {"inner": table.join, "left": table.left_join, "outer": table.outer_join}
    joiner = function(step["joiner"])
    joined: KTable = joins[step["kind"]](steps.results[step["other"]], joiner, value=ANY, name=step.get("store"))
    return joined


def _fk_join(steps: Steps, table: KTable, step: Step) -> KTable:
    join: Any = {"inner": table.join, "left": table.left_join}[step["kind"]]
    joined: KTable = join(
        steps.results[step["other"]],
        function(step["joiner"]),
        foreign_key=function(step["fk_fn"]),
        with_key=True,
        value=ANY,
        name=step.get("store"),
    )
    return joined


def _group_by(_: Steps, table: KTable, step: Step) -> KGroupedTable:
    return table.group_by(function(step["fn"]), key=ANY, value=ANY, name=step.get("name"))


def _capture_changes(steps: Steps, table: KTable, step: Step) -> None:
    """Add a node for the test next to the table's other children: it records the updates, with old values."""
    if step["old_values"]:
        table.origin.send_old(keep=step.get("force", True))
    node = table.graph.name("CAPTURE-")
    table.graph.process(node, (table.node,), Operator(lambda _: _changes))
    steps.captured.add(step["topic"])
    steps.only_captured.add(step["topic"])
    KStream(table.graph, node, table.key, ANY).to(step["topic"])


def _changes(chunk: Chunk) -> Chunk:
    old = chunk.old or [None] * len(chunk)
    return chunk.with_values([{"new": new, "old": one} for new, one in zip(chunk.values, old, strict=True)])


def _count(_: Steps, grouped: KGroupedTable, step: Step) -> KTable:
    return grouped.count(name=step.get("store"))


def _reduce(_: Steps, grouped: KGroupedTable, step: Step) -> KTable:
    return grouped.reduce(function(step["fn"]), function(step["subtractor"]), name=step.get("store"))


def _aggregate(_: Steps, grouped: KGroupedTable, step: Step) -> KTable:
    add, subtract = function(step["fn"]), function(step["subtractor"])
    return grouped.aggregate(
        lambda: step["init"],
        lambda key, value, row: add(row, value),
        lambda key, value, row: subtract(row, value),
        value=ANY,
        name=step.get("store"),
    )


OPERATORS: dict[type, dict[str, Callable[[Steps, Any, Step], Any]]] = {
    KTable: {
        "filter": _filter,
        "filter_not": _filter_not,
        "map_values": _map_values,
        "transform_values": _transform_values,
        "to_stream": _to_stream,
        "join_tables": _join_tables,
        "fk_join": _fk_join,
        "group_by": _group_by,
        "capture_changes": _capture_changes,
    },
    KGroupedTable: {"count": _count, "reduce": _reduce, "aggregate": _aggregate},
}
