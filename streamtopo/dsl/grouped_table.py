"""KGroupedTable: a table whose rows are to be made into one row for each key of another kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.naming import Graph, next_serde
from streamtopo.dsl.origin import KeptOrigin
from streamtopo.operators import aggregate_table
from streamtopo.operators.keeping import Keeping
from streamtopo.serdes import INT, Serde, SerdeLike
from streamtopo.stores import StoreSpec
from streamtopo.stores.state import State
from streamtopo.topology import Operator, Repartition, SinkNode, SourceNode

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable


@dataclass
class KGroupedTable:
    """Made by `KTable.group_by`. An updated row is taken from the group that it was in and added to its new one."""

    graph: Graph
    node: str
    key: Serde
    value: Serde
    name: str | None = None
    _source: str | None = field(default=None, init=False)

    def count(self, *, name: str | None = None) -> KTable:
        """How many rows each group has; a group that loses its last row stays, with 0."""
        return self._aggregated("KTABLE-AGGREGATE-", aggregate_table.counting, INT, name, unread=True)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
    ) -> KTable:
        """`adder(row, value)` and `subtractor(row, value)`; the first value of a group is its first row."""
        return self._aggregated(
            "KTABLE-REDUCE-",
            lambda state: aggregate_table.reducing(state, adder, subtractor),
            self.value,
            name,
        )

    def aggregate(
        self,
        init: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KTable:
        """`adder(key, value, row)` and `subtractor(key, value, row)`, from `init()` on; None deletes the row."""
        return self._aggregated(
            "KTABLE-AGGREGATE-",
            lambda state: aggregate_table.aggregating(state, init, adder, subtractor),
            next_serde(value, self.value),
            name,
        )

    def _aggregated(
        self,
        prefix: str,
        open_step: Callable[[State], Keeping],
        value: Serde,
        name: str | None,
        *,
        unread: bool = False,
    ) -> KTable:
        from streamtopo.dsl.ktable import KTable

        graph = self.graph
        store = graph.store_name("KTABLE-AGGREGATE-STATE-STORE-", name)
        sink, source = graph.name("KSTREAM-SINK-"), graph.name("KSTREAM-SOURCE-")
        node = graph.name(prefix)
        parent = self._repartitioned(store, sink, source, unread=unread and self.name is None)
        origin = KeptOrigin(graph, node, StoreSpec(store, self.key, value, cached=True), kept=True)
        graph.process(node, (parent,), Operator(lambda bindings: open_step(origin.open(bindings))), (store,))
        return KTable(graph, node, self.key, value, origin)

    def _repartitioned(self, store: str, sink: str, source: str, *, unread: bool) -> str:
        """The source behind the repartition topic; a named one serves all aggregations of this group."""
        if self._source is not None and self.name is not None:
            return self._source
        topology, topic = self.graph.topology, f"{self.name or store}-repartition"
        change = aggregate_table.change_serde(self.value)
        topology.add_repartition(Repartition(topic))
        topology.add(SinkNode(sink, (self.node,), topic, self.key, change))
        read = aggregate_table.unread_serde(change) if unread else change
        topology.add(SourceNode(source, (topic,), self.key, read))
        self._source = source
        return source
