"""KGroupedTable: a table whose rows are grouped by a new key, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, overload

from streamtopo.dsl.aggregators import Initializer
from streamtopo.dsl.graph import Graph, next_serde
from streamtopo.dsl.tables.origin import KeptOrigin
from streamtopo.hints import hinted
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables import aggregate_table
from streamtopo.records.type_parameters import A, K, V
from streamtopo.serdes import INT, Serde, SerdeLike
from streamtopo.settings.on_error import OnError
from streamtopo.stores import StoreSpec
from streamtopo.stores.rows.state import State
from streamtopo.topology.answering import answering
from streamtopo.topology.functions import check_function
from streamtopo.topology.nodes import Repartition, SinkNode, SourceNode
from streamtopo.topology.operator import Operator

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable


@hinted
@dataclass
class KGroupedTable(Generic[K, V]):
    """Created by `KTable.group_by`. If a row changes, its old value is subtracted, and its new value is added."""

    table: KTable
    node: str
    key: Serde
    value: Serde
    name: str | None = None
    _source: str | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"KGroupedTable[{self.key.shown}, {self.value.shown}] of {self.table!r}"

    @property
    def graph(self) -> Graph:
        return self.table.graph

    @answering
    def count(self, *, name: str | None = None, on_error: OnError | None = None) -> KTable[K, int]:
        """The number of rows of each group. A group without rows stays, with 0."""
        return self._aggregated("KTABLE-AGGREGATE-", aggregate_table.counting, INT, name, unread=True)

    @answering
    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """`adder(row, value)` and `subtractor(row, value)` return the new row. The first value is the first row."""
        check_function("KGroupedTable.reduce", "adder(row, value)", adder, returns="row")
        check_function("KGroupedTable.reduce", "subtractor(row, value)", subtractor)
        return self._aggregated(
            "KTABLE-REDUCE-",
            lambda state: aggregate_table.reducing(state, adder, subtractor),
            self.value,
            name,
            function=adder,
        )

    @overload
    def aggregate(
        self,
        init: Initializer[V],
        adder: Callable[[K, V, V], V | None],
        subtractor: Callable[[K, V, V], V | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def aggregate(
        self,
        init: Initializer[A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]: ...
    @answering
    def aggregate(
        self,
        init: Initializer[Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """`adder(key, value, row)` and `subtractor(key, value, row)` return the new row, starting with `init()`.

        None deletes the row.
        """
        check_function("KGroupedTable.aggregate", "init()", init)
        check_function("KGroupedTable.aggregate", "adder(key, value, row)", adder, returns="row")
        check_function("KGroupedTable.aggregate", "subtractor(key, value, row)", subtractor)
        return self._aggregated(
            "KTABLE-AGGREGATE-",
            lambda state: aggregate_table.aggregating(state, init, adder, subtractor),
            next_serde(value, self.value),
            name,
            function=adder,
        )

    def _aggregated(
        self,
        prefix: str,
        open_step: Callable[[State], Keeping],
        value: Serde,
        name: str | None,
        *,
        function: object = None,
        unread: bool = False,
    ) -> KTable:
        graph = self.table.graph
        store = graph.store_name("KTABLE-AGGREGATE-STATE-STORE-", name)
        sink, source = graph.name("KSTREAM-SINK-"), graph.name("KSTREAM-SOURCE-")
        node = graph.name(prefix)
        parent = self._repartitioned(store, sink, source, unread=unread and self.name is None)
        origin = KeptOrigin(graph, node, StoreSpec(store, self.key, value, cached=True), kept=True)
        operator = Operator(lambda bindings: open_step(origin.open(bindings)), function=function)
        graph.process(node, (parent,), operator, (store,))
        return replace(self.table, node=node, key=self.key, value=value, origin=origin)

    def _repartitioned(self, store: str, sink: str, source: str, *, unread: bool) -> str:
        """The source after the repartition topic. A named topic is shared by all aggregations of this group."""
        if self._source is not None and self.name is not None:
            return self._source
        topology, topic = self.table.graph.topology, f"{self.name or store}-repartition"
        change = aggregate_table.change_serde(self.value)
        topology.add_repartition(Repartition(topic))
        topology.add(SinkNode(sink, (self.node,), topic, self.key, change))
        read = aggregate_table.unread_serde(change) if unread else change
        topology.add(SourceNode(source, (topic,), self.key, read))
        self._source = source
        return source
