"""KTable: the latest value of each key."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.naming import Graph
from streamtopo.dsl.origin import KeptOrigin, Origin
from streamtopo.dsl.suppressed import Suppressed, suppress
from streamtopo.operators import tables
from streamtopo.records import Step
from streamtopo.serdes import Serde
from streamtopo.stores import StoreSpec
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

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable:
        """Hold updates back: `until_window_closes()`, or `until_time_limit("5s")`; the last of each key goes on."""
        return suppress(self, suppressed, name)

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
