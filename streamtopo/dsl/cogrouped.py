"""CogroupedKStream: several grouped streams that make one row for each key together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.naming import Graph, next_serde
from streamtopo.dsl.origin import KeptOrigin
from streamtopo.dsl.windowed import Layout, check_windows
from streamtopo.durations import Duration
from streamtopo.errors import TopologyError
from streamtopo.operators import aggregate, stateless
from streamtopo.operators.windowed import Aggregation
from streamtopo.records import Step
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.stores import StoreSpec
from streamtopo.topology import Bindings, Operator
from streamtopo.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from streamtopo.dsl.grouped import KGroupedStream

_PREFIX = "COGROUPKSTREAM-AGGREGATE-"


@dataclass(frozen=True)
class Part:
    grouped: KGroupedStream
    adder: Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class CogroupedKStream:
    """Made by `cogroup` of a grouped stream. Each stream has its own adder for the one row of a key."""

    parts: tuple[Part, ...]

    def cogroup(self, grouped: KGroupedStream, adder: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """With one more stream, whose records `adder(key, value, row)` adds."""
        first = self.parts[0].grouped.stream
        if grouped.stream.graph is not first.graph:
            raise TopologyError(
                f'"{first.node}" and "{grouped.stream.node}" come from different builders; use one builder'
            )
        if grouped.stream.key != first.key:
            raise TopologyError(
                f'"{first.node}" has keys of type {first.key.name} and "{grouped.stream.node}" of '
                f"{grouped.stream.key.name}, so equal keys would not meet; declare the same with key=…"
            )
        return replace(self, parts=(*self.parts, Part(grouped, adder)))

    def aggregate(self, init: Callable[[], Any], *, value: SerdeLike | None = None, name: str | None = None) -> KTable:
        """The row of each key, from `init()` on. Records without a key or without a value are dropped."""
        shared = self.share(value, name)
        spec = StoreSpec(shared.store, shared.key, shared.value, cached=True)
        origin = KeptOrigin(shared.graph, shared.node, spec, kept=True)

        def open_step(bindings: Bindings) -> Step:
            return aggregate.aggregate(origin.open(bindings), init, shared.adders, bindings.count)

        shared.add_parents()
        shared.graph.process(shared.node, shared.parents, Operator(open_step), uses=(shared.store,))
        return KTable(shared.graph, shared.node, shared.key, shared.value, origin)

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream: ...

    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> TimeWindowedCogroupedKStream: ...

    def windowed_by(self, windows: Windows) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        """One row for each key and window; every stream has its own stream time, which says what is late."""
        check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self, windows)
        return TimeWindowedCogroupedKStream(self, windows)

    def share(self, value: SerdeLike | None, name: str | None) -> Shared:
        """The names of a store and of the nodes that work on it, in the order in which Kafka Streams gives them."""
        first = self.parts[0].grouped.stream
        graph = first.graph
        store = graph.store_name(f"{_PREFIX}STATE-STORE-", name)
        streams = [part.grouped.by_key(f"{store}-{place}" if place else store) for place, part in enumerate(self.parts)]
        parents = tuple(graph.name(_PREFIX) for _ in streams)
        return Shared(
            graph,
            graph.name("COGROUPKSTREAM-MERGE-"),
            parents,
            tuple(stream.node for stream in streams),
            store,
            first.key,
            next_serde(value, first.value),
            tuple(part.adder for part in self.parts),
        )


@dataclass(frozen=True)
class Shared:
    """A node that keeps the rows, and in front of it a node for each stream."""

    graph: Graph
    node: str
    parents: tuple[str, ...]
    streams: tuple[str, ...]
    store: str
    key: Serde
    value: Serde
    adders: tuple[aggregate.Add, ...]

    def add_parents(self) -> None:
        """The store is there: add the nodes that it is described with."""
        for parent, stream in zip(self.parents, self.streams, strict=True):
            self.graph.process(parent, (stream,), Operator(lambda _: stateless.each), (self.store,))

    def table(self, windows: Windows, aggregation: Aggregation, retention: Duration | None) -> KTable:
        layout = Layout(windows, self.key, self.value, self.store, retention)
        origin = layout.origin(self.graph, self.node)
        self.add_parents()
        return layout.table(self.graph, self.node, self.parents, aggregation, origin, shared=True)


@dataclass(frozen=True)
class TimeWindowedCogroupedKStream:
    cogrouped: CogroupedKStream
    windows: Windows

    def aggregate(
        self,
        init: Callable[[], Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> KTable:
        """The row of each key and window, from `init()` on."""
        shared = self.cogrouped.share(value, name)
        return shared.table(self.windows, Aggregation(init, shared.adders), retention)


@dataclass(frozen=True)
class SessionWindowedCogroupedKStream:
    cogrouped: CogroupedKStream
    windows: Windows

    def aggregate(
        self,
        init: Callable[[], Any],
        merger: Callable[[Any, Any, Any], Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> KTable:
        """The row of each session; `merger(key, row, session)` makes one of two."""
        shared = self.cogrouped.share(value, name)
        return shared.table(self.windows, Aggregation(init, shared.adders, merger), retention)
