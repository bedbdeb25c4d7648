"""KTable: the latest value of each key."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.naming import Graph
from streamtopo.operators import stateless, tables
from streamtopo.serdes import Serde
from streamtopo.stores import StoreSpec
from streamtopo.topology import Operator


@dataclass(frozen=True)
class KTable:
    graph: Graph
    node: str
    key: Serde
    value: Serde
    store: str | None = None
    """The store that holds its rows, for `process(stores=[table.store])` and queries; None if nothing needs one."""

    def to_stream(self, *, name: str | None = None) -> KStream:
        """Its updates as records; a deleted row is a record without a value."""
        node = self.graph.name("KTABLE-TOSTREAM-", name)
        self.graph.process(node, (self.node,), Operator(lambda _: stateless.each))
        return KStream(self.graph, node, self.key, self.value)


def table_of(stream: KStream, node: str, store: str | None) -> KTable:
    """A node that reads a stream's records as updates of rows, kept in a store if one is named."""
    graph = stream.graph
    if store is None:
        graph.process(node, (stream.node,), Operator(lambda bindings: tables.passing(bindings.count)))
        return KTable(graph, node, stream.key, stream.value)
    graph.topology.add_store(StoreSpec(store, stream.key, stream.value, cached=True))
    operator = Operator(lambda bindings: tables.upsert(bindings.state(store), bindings.count))
    graph.process(node, (stream.node,), operator, (store,))
    return KTable(graph, node, stream.key, stream.value, store)
