"""CogroupedKStream: several grouped streams that are aggregated into one row for each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, overload

from streamtopo.dsl.aggregators import ADDER, Initializer, check_aggregation
from streamtopo.dsl.graph import Graph, next_serde
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.tables.origin import KeptOrigin
from streamtopo.dsl.windows import WindowedRows, check_windows
from streamtopo.errors import TopologyError
from streamtopo.hints import hinted
from streamtopo.operators import stateless
from streamtopo.operators.tables import aggregate
from streamtopo.operators.tables.adders import Add
from streamtopo.operators.windows.shared import Aggregation
from streamtopo.records.type_parameters import V1, A, K, V
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.settings.durations import Duration
from streamtopo.settings.on_error import OnError
from streamtopo.steps import StepLike
from streamtopo.stores import StoreSpec
from streamtopo.topology.answering import answering
from streamtopo.topology.functions import check_function
from streamtopo.topology.operator import Bindings, Operator
from streamtopo.windows import SessionWindows, Windowed, Windows, WindowsByStart

if TYPE_CHECKING:
    from streamtopo.dsl.grouped import KGroupedStream

_PREFIX = "COGROUPKSTREAM-AGGREGATE-"


@dataclass(frozen=True)
class GroupAndAdder:
    grouped: KGroupedStream
    adder: Callable[[Any, Any, Any], Any]


@hinted
@dataclass(frozen=True)
class CogroupedKStream(Generic[K, V]):
    """Created by `KGroupedStream.cogroup`. Each stream has its own adder for the row of a key."""

    parts: tuple[GroupAndAdder, ...]

    @property
    def graph(self) -> Graph:
        return self.parts[0].grouped.graph

    def cogroup(
        self, grouped: KGroupedStream[K, V1 | None], adder: Callable[[K, V1, Any], Any]
    ) -> CogroupedKStream[K, V]:
        """Add another stream, with `adder(key, value, row)` for its records."""
        check_function("cogroup", ADDER, adder, returns="row")
        first = self.parts[0].grouped.stream
        if grouped.stream.graph is not first.graph:
            raise TopologyError(f"{first!r} and {grouped.stream!r} come from different builders; use one builder")
        if grouped.stream.key != first.key:
            raise TopologyError(
                f"{first!r} has keys of type {first.key.name} and {grouped.stream!r} of "
                f"{grouped.stream.key.name}, so equal keys would not meet; declare the same with key=…"
            )
        return replace(self, parts=(*self.parts, GroupAndAdder(grouped, adder)))

    @overload
    def aggregate(
        self,
        init: Initializer[V],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def aggregate(
        self,
        init: Initializer[A],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]: ...
    @answering
    def aggregate(
        self,
        init: Initializer[Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """The row of each key, starting with `init()`. Records without a key or without a value are dropped."""
        check_aggregation(init)
        nodes = self.share(value, name)
        spec = StoreSpec(nodes.store, nodes.key, nodes.value, cached=True)
        origin = KeptOrigin(nodes.graph, nodes.node, spec, kept=True)

        def open_step(bindings: Bindings) -> StepLike:
            return aggregate.aggregate(origin.open(bindings), init, nodes.adders, bindings.count)

        nodes.add_parents()
        nodes.graph.process(nodes.node, nodes.parents, Operator(open_step), uses=(nodes.store,))
        return KTable(nodes.graph, nodes.node, nodes.key, nodes.value, origin)

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: WindowsByStart) -> TimeWindowedCogroupedKStream[K, V]: ...

    def windowed_by(
        self, windows: Windows
    ) -> TimeWindowedCogroupedKStream[K, V] | SessionWindowedCogroupedKStream[K, V]:
        """One row for each key and window. Each stream has its own stream time, which decides what is late."""
        check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self, windows)
        return TimeWindowedCogroupedKStream(self, windows)

    def share(self, value: SerdeLike | None, name: str | None) -> CogroupNodes:
        """The names of the store and the nodes, numbered in the same order as in Kafka Streams."""
        first = self.parts[0].grouped.stream
        graph = first.graph
        store = graph.store_name(f"{_PREFIX}STATE-STORE-", name)
        streams = [part.grouped.by_key(f"{store}-{place}" if place else store) for place, part in enumerate(self.parts)]
        parents = tuple(graph.name(_PREFIX) for _ in streams)
        return CogroupNodes(
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
class CogroupNodes:
    """The nodes of a cogroup: one that keeps the rows, and before it one for each stream."""

    graph: Graph
    node: str
    parents: tuple[str, ...]
    streams: tuple[str, ...]
    store: str
    key: Serde
    value: Serde
    adders: tuple[Add, ...]

    def add_parents(self) -> None:
        """Add the nodes for the streams. They are described with the store, so it must exist."""
        for parent, stream in zip(self.parents, self.streams, strict=True):
            self.graph.process(parent, (stream,), Operator(lambda _: stateless.each), (self.store,))

    def table(self, windows: Windows, aggregation: Aggregation, retention: Duration | None) -> KTable:
        rows = WindowedRows(windows, self.key, self.value, self.store, retention)
        origin = rows.origin(self.graph, self.node)
        self.add_parents()
        return rows.table(self.graph, self.node, self.parents, aggregation, origin, shared=True)


@dataclass(frozen=True)
class TimeWindowedCogroupedKStream(Generic[K, V]):
    """Several grouped streams that are aggregated in one row for each key and window."""

    cogrouped: CogroupedKStream[K, V]
    windows: Windows

    @property
    def graph(self) -> Graph:
        return self.cogrouped.graph

    @overload
    def aggregate(
        self,
        init: Initializer[V],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], V]: ...
    @overload
    def aggregate(
        self,
        init: Initializer[A],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @answering
    def aggregate(
        self,
        init: Initializer[Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable:
        """The row of each key and window, starting with `init()`."""
        check_aggregation(init)
        nodes = self.cogrouped.share(value, name)
        return nodes.table(self.windows, Aggregation(init, nodes.adders), retention)


@dataclass(frozen=True)
class SessionWindowedCogroupedKStream(Generic[K, V]):
    """Several grouped streams that are aggregated in one row for each key and session."""

    cogrouped: CogroupedKStream[K, V]
    windows: Windows

    @property
    def graph(self) -> Graph:
        return self.cogrouped.graph

    @overload
    def aggregate(
        self,
        init: Initializer[V],
        merger: Callable[[K, V, V], V],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], V]: ...
    @overload
    def aggregate(
        self,
        init: Initializer[A],
        merger: Callable[[K, A, A], A],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @answering
    def aggregate(
        self,
        init: Initializer[Any],
        merger: Callable[[Any, Any, Any], Any],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable:
        """The row of each session, starting with `init()`. `merger(key, row, session)` merges two rows."""
        check_aggregation(init, merger=merger)
        nodes = self.cogrouped.share(value, name)
        return nodes.table(self.windows, Aggregation(init, nodes.adders, merger), retention)
