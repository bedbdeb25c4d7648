"""The nodes of a join of two tables by their keys."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from streamtopo.dsl.graph import next_serde
from streamtopo.dsl.tables.origin import DerivedOrigin, KeptOrigin
from streamtopo.errors import TopologyError
from streamtopo.operators.joins.lookup import Lookup, Table
from streamtopo.operators.joins.table_join import TableSide, ValueJoiner, join_rows, join_side, kept_merged, merged
from streamtopo.serdes import SerdeLike
from streamtopo.steps import StepLike
from streamtopo.stores import StoreSpec
from streamtopo.topology.operator import Bindings, Operator

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable


class RowsRequired(NamedTuple):
    left_required: bool
    right_required: bool


INNER, LEFT, OUTER = RowsRequired(True, True), RowsRequired(True, False), RowsRequired(False, False)


def join_tables(
    left: KTable, right: KTable, joiner: ValueJoiner, kind: RowsRequired, *, value: SerdeLike | None, name: str | None
) -> KTable:
    if left.key != right.key:
        raise TopologyError(
            f"{left!r} and {right!r} are joined, but have keys of different types: "
            f"{left.key.name} and {right.key.name}; join by a foreign_key=…, or declare the same key="
        )
    graph = left.graph
    merge = graph.name("KTABLE-MERGE-")
    if not kind.right_required:
        left.origin.send_old(keep=True)
    if not kind.left_required:
        right.origin.send_old(keep=True)
    serde = next_serde(value, left.value)
    this = TableSide(joiner, kind.left_required, kind.right_required)
    other = TableSide(lambda own, row: joiner(row, own), kind.right_required, kind.left_required)
    left_rows, right_rows = left.origin.rows(), right.origin.rows()
    origin: KeptOrigin | DerivedOrigin
    parents = (left.origin, right.origin)
    if name is None:
        origin = DerivedOrigin(parents, partial(join_rows, this))
    else:
        spec = StoreSpec(graph.store_name("", name), left.key, serde, cached=True)
        origin = KeptOrigin(graph, merge, spec, kept=True, parents=parents)
    sides = (
        _side(left, graph.name("KTABLE-JOINTHIS-"), this, joiner, right_rows, origin),
        _side(right, graph.name("KTABLE-JOINOTHER-"), other, joiner, left_rows, origin),
    )
    graph.process(
        merge, sides, Operator(partial(_open_merge, origin), function=joiner), () if name is None else (name,)
    )
    return replace(left, node=merge, value=serde, origin=origin)


def _side(
    table: KTable,
    node: str,
    side: TableSide,
    joiner: ValueJoiner,
    rows: Table,
    result: KeptOrigin | DerivedOrigin,
) -> str:
    def open_step(bindings: Bindings) -> StepLike:
        lookup = Lookup(rows, bindings, as_forwarded=True)
        return join_side(side, lookup, bindings.count, sends_old=result.sends_old)

    stores, watches = tuple(kept.store for kept in rows.kept), tuple(kept.node for kept in rows.kept)
    operator = Operator(open_step, function=joiner)
    return table.graph.process(node, (table.node,), operator, stores, watches, as_forwarded=True)


def _open_merge(origin: KeptOrigin | DerivedOrigin, bindings: Bindings) -> StepLike:
    if isinstance(origin, KeptOrigin):
        return kept_merged(origin.open(bindings))
    return merged(sends_old=origin.sends_old)
