"""KGroupedStream: a stream grouped by key, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, overload

from streamtopo.aggregators import Aggregator
from streamtopo.dsl.aggregators import ADDER, Initializer, check_aggregation, check_ready_made, not_given, with_finish
from streamtopo.dsl.cogrouped import CogroupedKStream, GroupAndAdder
from streamtopo.dsl.graph import Graph, next_serde
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.tables.origin import KeptOrigin
from streamtopo.dsl.windows import SessionWindowedKStream, TimeWindowedKStream, windowed
from streamtopo.hints import hinted
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables import aggregate
from streamtopo.records.type_parameters import V1, A, K, V
from streamtopo.serdes import BYTES, INT, Serde, SerdeLike
from streamtopo.settings.on_error import OnError
from streamtopo.stores import StoreSpec
from streamtopo.stores.rows.state import State
from streamtopo.topology.answering import answering
from streamtopo.topology.functions import check_function
from streamtopo.topology.operator import Operator
from streamtopo.windows import SessionWindows, Windows, WindowsByStart

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream

Open = Callable[[State, aggregate.Dropped], Keeping]


@hinted
@dataclass
class KGroupedStream(Generic[K, V]):
    """Created by `group_by` or `group_by_key`. Records without a key or without a value are dropped and counted."""

    stream: KStream
    name: str | None = None
    _repartitioned: KStream | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"KGroupedStream by the key of {self.stream!r}"

    @property
    def graph(self) -> Graph:
        return self.stream.graph

    @answering
    def count(self, *, name: str | None = None, on_error: OnError | None = None) -> KTable[K, int]:
        """The number of records of each key."""
        raw = self.stream.key_changed and self.name is None and self.stream.key.exact
        return self._aggregated("KSTREAM-AGGREGATE-", partial(aggregate.count, raw=raw), INT, name, raw=raw)

    @answering
    def reduce(
        self: KGroupedStream[K, V1 | None],
        reducer: Callable[[V1, V1], V1],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V1]:
        """`reducer(row, value)` returns the new row for each record. The first value of a key is its first row."""
        check_function("reduce", "reducer(row, value)", reducer, returns="row")
        return self._aggregated(
            "KSTREAM-REDUCE-",
            lambda state, dropped: aggregate.reduce(state, reducer, dropped),
            self.stream.value,
            name,
            function=reducer,
        )

    @overload
    def aggregate(
        self: KGroupedStream[K, V1 | None],
        init: Initializer[V1],
        adder: Callable[[K, V1, V1], V1 | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V1]: ...
    @overload
    def aggregate(
        self: KGroupedStream[K, V1 | None],
        init: Initializer[A],
        adder: Callable[[K, V1, A], A | None],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self: KGroupedStream[K, V1 | None],
        init: Aggregator[V1, A],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]: ...
    @answering
    def aggregate(
        self: Any,
        init: Callable[[], Any] | Aggregator,
        adder: Callable[[Any, Any, Any], Any] = not_given,
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Any:
        """`adder(key, value, row)` returns the new row for each record, starting with `init()`. None deletes the row.

        Or use a ready-made aggregator from `streamtopo.aggregators`: `aggregate(mean())`.
        """
        if isinstance(init, Aggregator):
            check_ready_made(value, adder)
            return with_finish(init, self.aggregate(init.init, init.adder, value=init.value, name=name))
        check_aggregation(init, adder=adder)
        return self._aggregated(
            "KSTREAM-AGGREGATE-",
            lambda state, dropped: aggregate.aggregate(state, init, (adder,), dropped),
            next_serde(value, self.stream.value),
            name,
            function=adder,
        )

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, emit: str = "on_update", on_late: str | None = None
    ) -> SessionWindowedKStream[K, V]: ...

    @overload
    def windowed_by(
        self,
        windows: WindowsByStart,
        *,
        emit: str = "on_update",
        on_late: str | None = None,
    ) -> TimeWindowedKStream[K, V]: ...

    def windowed_by(
        self, windows: Windows, *, emit: str = "on_update", on_late: str | None = None
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """One row for each key and window.

        With emit="on_update", rows are sent whenever they change; with "on_close" once, when their window closes.
        `on_late` is a topic for late records. A record is late if all its windows are closed.
        """
        return windowed(self, windows, emit, on_late)

    def cogroup(self: KGroupedStream[K, V1 | None], adder: Callable[[K, V1, Any], Any]) -> CogroupedKStream[K, V1]:
        """Aggregate this stream together with others. Add the others with `cogroup` of the result."""
        check_function("cogroup", ADDER, adder, returns="row")
        return CogroupedKStream((GroupAndAdder(self, adder),))

    def _aggregated(
        self,
        prefix: str,
        open_step: Open,
        value: Serde,
        name: str | None,
        *,
        function: object = None,
        raw: bool = False,
    ) -> KTable:
        graph = self.stream.graph
        store = graph.store_name(f"{prefix}STATE-STORE-", name)
        node = graph.name(prefix)
        parent = self.by_key(store, raw=raw)
        origin = KeptOrigin(graph, node, StoreSpec(store, parent.key, value, cached=True), kept=True)
        operator = Operator(lambda bindings: open_step(origin.open(bindings), bindings.count), function=function)
        graph.process(node, (parent.node,), operator, (store,))
        return KTable(graph, node, parent.key, value, origin)

    def by_key(self, store: str, *, unread: bool = False, raw: bool = False) -> KStream:
        """The stream with equal keys in one task. A named repartition topic is shared by all its aggregations.

        With `unread`, values are not decoded after an unnamed repartition topic; with `raw`, keys are not either.
        """
        if not self.stream.key_changed:
            return self.stream
        if self.name is None:
            return self.stream.repartitioned(store, read=BYTES if unread else None, raw=raw)
        if self._repartitioned is None:
            self._repartitioned = self.stream.repartitioned(self.name, named=True)
        return self._repartitioned
