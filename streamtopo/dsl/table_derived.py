"""Nodes that make one table from another, row by row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.naming import next_serde
from streamtopo.dsl.origin import DerivedOrigin, KeptOrigin
from streamtopo.errors import TopologyError
from streamtopo.operators import derived, transform_values
from streamtopo.operators.derived import Derive
from streamtopo.operators.lookup import Table
from streamtopo.operators.transform_values import Values
from streamtopo.processors import ValueTransformer
from streamtopo.records import Step
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.stores import StoreSpec
from streamtopo.topology import Bindings, Operator

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable

Transform = Callable[[Any, Any], Any] | Callable[[], ValueTransformer]


def filter_table(table: KTable, predicate: Callable[[Any, Any], object], name: str | None, *, keep: bool) -> KTable:
    convert = derived.sifting(predicate, keep=keep)
    node = table.graph.name("KTABLE-FILTER-")
    origin = _origin(table, node, table.value, name, derived.row_by_row(convert))
    origin.sends_old = table.origin.send_old(keep=False)
    # A deletion that changes nothing now may be news to who has versions.
    versioned = table.origin.versioned
    derive, keep_rows = (derived.derived, derived.kept) if versioned else (derived.filtered, derived.kept_filtered)

    def open_step(bindings: Bindings) -> Step:
        if isinstance(origin, KeptOrigin):
            return keep_rows(convert, origin.open(bindings))
        return derive(convert, sends_old=origin.sends_old)

    return _made(table, node, table.value, origin, Operator(open_step))


def map_table(
    table: KTable, function: Callable[..., Any], value: SerdeLike | None, name: str | None, *, with_key: bool
) -> KTable:
    convert = derived.mapping(function, with_key=with_key)
    serde = next_serde(value, table.value)
    node = table.graph.name("KTABLE-MAPVALUES-")
    origin = _origin(table, node, serde, name, derived.row_by_row(convert))

    def open_step(bindings: Bindings) -> Step:
        if isinstance(origin, KeptOrigin):
            return derived.kept(convert, origin.open(bindings))
        return derived.derived(convert, sends_old=origin.sends_old)

    return _made(table, node, serde, origin, Operator(open_step))


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
    supplied = _takes_nothing(transformer)
    if used and not supplied:
        raise TopologyError(f'"{node}" has stores=…, but a function cannot ask for them; give a ValueTransformer')
    origin: KeptOrigin | DerivedOrigin
    if name is None and supplied:
        origin = UnreadableOrigin((table.origin,), node)
    else:
        origin = _origin(table, node, serde, name, transform_values.row_of(transformer))  # type: ignore[arg-type]

    def open_step(bindings: Bindings) -> Step:
        values: Values
        if supplied:
            values = transform_values.opened(transformer, node, bindings)  # type: ignore[arg-type]
        else:
            values = transform_values.values_of(transformer)  # type: ignore[arg-type]
        if isinstance(origin, KeptOrigin):
            return transform_values.kept_transformed(values, origin.open(bindings))
        return transform_values.Transforming(values, origin.sends_old)

    return _made(table, node, serde, origin, Operator(open_step, records=supplied), used)


class UnreadableOrigin(DerivedOrigin):
    """Of a transformer that may remember things: what it would make of a row can only be known by keeping it."""

    def __init__(self, parents: tuple[Any, ...], node: str) -> None:
        super().__init__(parents, lambda key, row: None)
        self._node = node

    def rows(self) -> Table:
        raise TopologyError(
            f'"{self._node}" keeps no rows, and cannot make one again when a join asks for it; '
            "give transform_values a name=…, or a function instead of a transformer"
        )


def _takes_nothing(transformer: Transform) -> bool:
    """Whether it makes transformers; a function of (key, value) does not."""
    try:
        inspect.signature(transformer).bind()
    except (TypeError, ValueError):
        return False
    return True


def _origin(table: KTable, node: str, value: Serde, name: str | None, derive: Derive) -> KeptOrigin | DerivedOrigin:
    if name is None:
        return DerivedOrigin((table.origin,), derive)
    spec = StoreSpec(table.graph.store_name("", name), table.key, value, cached=True)
    return KeptOrigin(table.graph, node, spec, kept=True)


def _made(
    table: KTable,
    node: str,
    value: Serde,
    origin: KeptOrigin | DerivedOrigin,
    operator: Operator,
    stores: tuple[str, ...] = (),
) -> KTable:
    from streamtopo.dsl.ktable import KTable

    kept = () if origin.store is None else (origin.store.name,)
    table.graph.process(node, (table.node,), operator, (*kept, *stores))
    return KTable(table.graph, node, table.key, value, origin)
