"""Nodes that derive a table from another one, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.graph import next_serde
from streamtopo.dsl.tables.origin import DerivedOrigin, KeptOrigin
from streamtopo.errors import TopologyError
from streamtopo.operators.joins.lookup import Table
from streamtopo.operators.stateless import map_values_with_key
from streamtopo.operators.tables import derived, transform_values
from streamtopo.operators.tables.derived import Derive
from streamtopo.processors import ValueTransformer
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.steps import Step, StepLike, step_of
from streamtopo.stores import StoreSpec
from streamtopo.topology.functions import can_take, check_function
from streamtopo.topology.operator import Bindings, Operator

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable

Transform = Callable[[Any, Any], Any] | Callable[[], ValueTransformer]


def filter_table(table: KTable, predicate: Callable[[Any, Any], object], name: str | None, *, keep: bool) -> KTable:
    convert = derived.sifting(predicate, keep=keep)
    node = table.graph.name("KTABLE-FILTER-")
    origin = _origin(table, node, table.value, name, derived.row_by_row(convert))
    origin.sends_old = table.origin.send_old(keep=False)
    # A deletion that does not change the current row may change an older version.
    versioned = table.origin.versioned
    derive, keep_rows = (derived.derived, derived.kept) if versioned else (derived.filtered, derived.kept_filtered)

    def open_step(bindings: Bindings) -> StepLike:
        if isinstance(origin, KeptOrigin):
            return keep_rows(convert, origin.open(bindings))
        return derive(convert, sends_old=origin.sends_old)

    return _derived_table(table, node, table.value, origin, Operator(open_step, function=predicate, makes=""))


def map_table(
    table: KTable, function: Callable[..., Any], value: SerdeLike | None, name: str | None, *, with_key: bool
) -> KTable:
    convert = derived.mapping(function, with_key=with_key)
    serde = next_serde(value, table.value)
    node = table.graph.name("KTABLE-MAPVALUES-")
    origin = _origin(table, node, serde, name, derived.row_by_row(convert))

    def open_step(bindings: Bindings) -> StepLike:
        if isinstance(origin, KeptOrigin):
            return derived.kept(convert, origin.open(bindings))
        return derived.derived(convert, sends_old=origin.sends_old)

    return _derived_table(table, node, serde, origin, Operator(open_step, function=function))


def transform_table(
    table: KTable,
    transformer: Transform,
    stores: Iterable[str | StoreSpec],
    value: SerdeLike | None,
    name: str | None,
) -> KTable:
    serde = next_serde(value, table.value)
    graph = table.graph
    node = graph.name("KTABLE-TRANSFORMVALUES-")
    used = graph.use_stores(node, stores)
    supplied = can_take(transformer, 0)
    check_function("transform_values", "transformer()" if supplied else "transformer(key, value)", transformer)
    if used and not supplied:
        raise TopologyError(f'"{node}" has stores=…, but a function cannot use them; give a ValueTransformer')
    origin: KeptOrigin | DerivedOrigin
    if name is None and supplied:
        origin = UnreadableOrigin((table.origin,), node)
    else:
        origin = _origin(table, node, serde, name, transform_values.row_of(transformer))  # type: ignore[arg-type]

    def open_step(bindings: Bindings) -> StepLike:
        values: Step
        if supplied:
            values = transform_values.opened(transformer, node, bindings)  # type: ignore[arg-type]
        else:
            values = step_of(map_values_with_key(transformer))  # type: ignore[arg-type]
        if isinstance(origin, KeptOrigin):
            return transform_values.KeepingTransformed(values, origin.open(bindings))
        return transform_values.Transforming(values, sends_old=origin.sends_old)

    operator = Operator(open_step, records=supplied, function=transformer)
    return _derived_table(table, node, serde, origin, operator, used)


class UnreadableOrigin(DerivedOrigin):
    """For a transformer that may have state: it cannot derive a row again, so rows must be kept to be read."""

    def __init__(self, parents: tuple[Any, ...], node: str) -> None:
        super().__init__(parents, lambda key, row: None)
        self._node = node

    def rows(self) -> Table:
        raise TopologyError(
            f'"{self._node}" keeps no rows, and cannot make one again when a join asks for it; '
            "give transform_values a name=…, or a function instead of a transformer"
        )


def _origin(table: KTable, node: str, value: Serde, name: str | None, derive: Derive) -> KeptOrigin | DerivedOrigin:
    if name is None:
        return DerivedOrigin((table.origin,), derive)
    spec = StoreSpec(table.graph.store_name("", name), table.key, value, cached=True)
    return KeptOrigin(table.graph, node, spec, kept=True)


def _derived_table(
    table: KTable,
    node: str,
    value: Serde,
    origin: KeptOrigin | DerivedOrigin,
    operator: Operator,
    stores: tuple[str, ...] = (),
) -> KTable:
    kept = () if origin.store is None else (origin.store.name,)
    table.graph.process(node, (table.node,), operator, (*kept, *stores))
    return replace(table, node=node, value=value, origin=origin)
