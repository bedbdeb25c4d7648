"""KTable: the latest value of each key."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.naming import Graph
from streamtopo.dsl.origin import KeptOrigin, Origin
from streamtopo.operators import tables
from streamtopo.records import Step
from streamtopo.serdes import Serde
from streamtopo.stores import Kind, StoreSpec
from streamtopo.topology import Bindings, Operator


@dataclass(frozen=True)
class KTable:
    graph: Graph
    node: str
    key: Serde
    value: Serde
    origin: Origin

    @property
    def store(self) -> str | None:
        """The store that holds its rows, for `process(stores=[table.store])` and queries; None if nothing needs one."""
        return None if self.origin.store is None else self.origin.store.name

    @property
    def versioned(self) -> bool:
        """Whether its rows can be asked for as of a time."""
        return self.origin.store is not None and self.origin.store.kind is Kind.VERSIONED

    def to_stream(self, *, name: str | None = None) -> KStream:
        """Its updates as records; a deleted row is a record without a value."""
        node = self.graph.name("KTABLE-TOSTREAM-", name)
        self.graph.process(node, (self.node,), Operator(lambda _: tables.updates))
        return KStream(self.graph, node, self.key, self.value)


def table_of(stream: KStream, node: str, store: str, *, kept: bool) -> KTable:
    """A node that reads a stream's records as updates of rows; they are kept if asked for, now or by a later join."""
    origin = KeptOrigin(stream.graph, node, StoreSpec(store, stream.key, stream.value, cached=True), kept=kept)

    def open_step(bindings: Bindings) -> Step:
        if origin.store is None:
            return tables.passing(bindings.count)
        return tables.upsert(origin.open(bindings), bindings.count)

    stream.graph.process(node, (stream.node,), Operator(open_step), (store,) if kept else ())
    return KTable(stream.graph, node, stream.key, stream.value, origin)


def versioned_table_of(stream: KStream, node: str, spec: StoreSpec) -> KTable:
    """Like `table_of`, for a store with versions."""
    origin = KeptOrigin(stream.graph, node, spec, kept=True)

    def open_step(bindings: Bindings) -> Step:
        state, time = bindings.state(spec.name), bindings.clock(spec.name)
        return tables.upsert_versions(state, time, bindings.count, sends_old=origin.sends_old)

    stream.graph.process(node, (stream.node,), Operator(open_step), (spec.name,))
    return KTable(stream.graph, node, stream.key, stream.value, origin)
