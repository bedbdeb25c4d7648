"""Aggregations of a grouped stream in windows, made by `windowed_by`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, overload

from streamtopo.aggregators import Aggregator
from streamtopo.dsl.aggregators import Initializer, check_aggregation, check_ready_made, not_given, with_finish
from streamtopo.dsl.graph import ClosingTime, Graph, next_serde
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.tables.origin import KeptOrigin
from streamtopo.errors import TopologyError
from streamtopo.hints import hinted
from streamtopo.operators import stateless
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.windows.closing import forwarded_until
from streamtopo.operators.windows.session_windows import session_windows
from streamtopo.operators.windows.shared import Aggregation, counting, reducing, stream_time_clocks
from streamtopo.operators.windows.sliding_windows import sliding_windows
from streamtopo.operators.windows.time_windows import time_windows
from streamtopo.records.type_parameters import V1, A, K, V
from streamtopo.serdes import INT, Serde, SerdeLike
from streamtopo.serdes.windowed import windowed_key, windowed_key_in_store
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.settings.on_error import OnError
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.layout import segment_of
from streamtopo.stores.rows.state import State
from streamtopo.topology.answering import answering
from streamtopo.topology.functions import check_function
from streamtopo.topology.names import valid_name
from streamtopo.topology.nodes import SinkNode
from streamtopo.topology.operator import Bindings, Operator, StillOpen, Timing
from streamtopo.windows import AlignedWindows, SessionWindows, SlidingWindows, Windowed, Windows, WindowsByStart

if TYPE_CHECKING:
    from streamtopo.dsl.grouped import KGroupedStream
    from streamtopo.dsl.kstream import KStream

EMITS = ("on_update", "on_close")


@dataclass(frozen=True)
class _Windowed(Generic[K, V]):
    """`on_close` forwards each row once, when its window closes; `on_update` whenever it changes."""

    grouped: KGroupedStream
    windows: Windows
    emit: str
    on_late: str | None

    def __repr__(self) -> str:
        return f"{type(self).__name__} with {self.windows} of {self.grouped!r}"

    @property
    def graph(self) -> Graph:
        return self.grouped.graph

    @answering
    def count(
        self, *, name: str | None = None, on_error: OnError | None = None, retention: Duration | None = None
    ) -> KTable[Windowed[K], int]:
        """The number of records of each key in each window."""
        return self._table("KSTREAM-AGGREGATE-", counting(), INT, name, retention)

    @answering
    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], V]:
        """`reducer(row, value)` returns the new row for each record. The first value in a window is its first row."""
        check_function("reduce", "reducer(row, value)", reducer, returns="row")
        return self._table("KSTREAM-REDUCE-", reducing(reducer), self.grouped.stream.value, name, retention, reducer)

    def _table(
        self,
        prefix: str,
        aggregation: Aggregation,
        value: Serde,
        name: str | None,
        retention: Duration | None,
        function: object = None,
    ) -> KTable:
        graph = self.grouped.stream.graph
        store = graph.store_name(f"{prefix}STATE-STORE-", name)
        node = graph.name(prefix)
        parent = self.grouped.by_key(store, unread=aggregation.counts and self.on_late is None)
        rows = WindowedRows(self.windows, parent.key, value, store, retention, on_close=self.emit == "on_close")
        late = None if self.on_late is None else _LateTopic(self.on_late, parent)
        origin = rows.origin(graph, node)
        return rows.table(graph, node, (parent.node,), aggregation, origin, late=late, function=function)


@hinted
class TimeWindowedKStream(_Windowed[K, V]):
    """Rows have keys `Windowed(key, start, end)`. Records for closed windows are dropped and counted."""

    @overload
    def aggregate(
        self,
        init: Initializer[V],
        adder: Callable[[K, V, V], V | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], V]: ...
    @overload
    def aggregate(
        self,
        init: Initializer[A],
        adder: Callable[[K, V, A], A | None],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self: TimeWindowedKStream[K, V1 | None],
        init: Aggregator[V1, A],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @answering
    def aggregate(
        self: Any,
        init: Callable[[], Any] | Aggregator,
        adder: Callable[[Any, Any, Any], Any] = not_given,
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> Any:
        """`adder(key, value, row)` returns the new row for each record, starting with `init()`. None deletes the row.

        Or use a ready-made aggregator from `streamtopo.aggregators`: `aggregate(mean())`.
        """
        if isinstance(init, Aggregator):
            check_ready_made(value, adder)
            table = self.aggregate(init.init, init.adder, value=init.value, name=name, retention=retention)
            return with_finish(init, table)
        check_aggregation(init, adder=adder)
        serde = next_serde(value, self.grouped.stream.value)
        return self._table("KSTREAM-AGGREGATE-", Aggregation(init, (adder,)), serde, name, retention, adder)


@hinted
class SessionWindowedKStream(_Windowed[K, V]):
    """Rows have keys `Windowed(key, start, end)`.

    When a session grows, its row is deleted, and written again with its new times.
    """

    @overload
    def aggregate(
        self,
        init: Initializer[V],
        adder: Callable[[K, V, V], V | None],
        merger: Callable[[K, V, V], V | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], V]: ...
    @overload
    def aggregate(
        self,
        init: Initializer[A],
        adder: Callable[[K, V, A], A | None],
        merger: Callable[[K, A, A], A | None],
        *,
        value: SerdeLike[A],
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self: SessionWindowedKStream[K, V1 | None],
        init: Aggregator[V1, A],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @answering
    def aggregate(
        self: Any,
        init: Callable[[], Any] | Aggregator,
        adder: Callable[[Any, Any, Any], Any] = not_given,
        merger: Callable[[Any, Any, Any], Any] = not_given,
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        retention: Duration | None = None,
    ) -> Any:
        """`merger(key, row, session)` merges rows, starting with `init()`; `adder(key, value, row)` adds the record.

        Or use a ready-made aggregator from `streamtopo.aggregators`: `aggregate(mean())`.
        """
        if isinstance(init, Aggregator):
            check_ready_made(value, adder, merger)
            table = self.aggregate(init.init, init.adder, init.merger, value=init.value, name=name, retention=retention)
            return with_finish(init, table)
        check_aggregation(init, adder=adder, merger=merger)
        serde = next_serde(value, self.grouped.stream.value)
        aggregation = Aggregation(init, (adder,), merger)
        return self._table("KSTREAM-AGGREGATE-", aggregation, serde, name, retention, adder)


@dataclass(frozen=True)
class _LateTopic:
    """The topic for late records."""

    topic: str
    stream: KStream


@dataclass(frozen=True)
class WindowedRows:
    """How the rows of windows are stored, and the table of them."""

    windows: Windows
    key: Serde
    value: Serde
    store: str
    retention: Duration | None
    on_close: bool = False

    def table(
        self,
        graph: Graph,
        node: str,
        parents: tuple[str, ...],
        aggregation: Aggregation,
        origin: KeptOrigin,
        *,
        late: _LateTopic | None = None,
        shared: bool = False,
        function: object = None,
    ) -> KTable:
        """Add the node that keeps the rows. With `shared` it is described without the store, which its parents have."""

        def open_step(bindings: Bindings) -> Keeping:
            return self._open(aggregation, origin.open(bindings), bindings, on_late=late is not None)

        stores, uses = ((), (self.store,)) if shared else ((self.store,), ())
        timing = Timing.CHANGED if self.on_close else Timing.USED
        still_open = self._still_open() if self.on_close else None
        operator = Operator(open_step, timing=timing, still_open=still_open, function=function)
        graph.process(node, parents, operator, stores, uses=uses)
        if self.windows.after_end is not None:
            clocks = stream_time_clocks(self.store, len(aggregation.adds))
            graph.closing[node] = ClosingTime(self.windows.after_end, clocks)
        table = KTable(graph, node, windowed_key(self.key, self.windows.key_size), self.value, origin)
        return table if late is None else _divided(table, late)

    def origin(self, graph: Graph, node: str) -> KeptOrigin:
        return KeptOrigin(graph, node, self._spec(), kept=True)

    def _spec(self) -> StoreSpec:
        windows, retention = self.windows, self._kept_for()
        return StoreSpec(
            self.store,
            windowed_key_in_store(self.key, windows.key_size),
            self.value,
            Kind.SESSION if windows.key_size is None else Kind.TIMESTAMPED_WINDOW,
            cached=not self.on_close,
            retention=retention,
            grace=windows.grace,
            segment=retention and segment_of(retention),
            by_time=self.on_close,
            meaning=windows.meaning,
        )

    def _still_open(self) -> StillOpen:
        """The row of a session has the time of its end; that of another window a time between start and end."""
        length = self.windows.length if isinstance(self.windows, WindowsByStart) else 1
        return StillOpen(forwarded_until(self.store), length)

    def _kept_for(self) -> int:
        least = self.windows.retention
        if self.retention is None:
            return least
        retention = milliseconds(self.retention)
        if not least:
            raise TopologyError("unlimited windows keep their rows forever; leave out their retention")
        if retention < least:
            raise TopologyError(
                f'store "{self.store}" keeps rows for {retention} ms, but these windows need them for {least} ms; '
                f"give retention={least} or more, or leave it out"
            )
        return retention

    def _open(self, aggregation: Aggregation, state: State, bindings: Bindings, *, on_late: bool) -> Keeping:
        """Open the operator for this kind of windows."""
        match self.windows:
            case AlignedWindows() as windows:
                return time_windows(windows, aggregation, state, bindings, on_late=on_late, on_close=self.on_close)
            case SlidingWindows() as windows:
                return sliding_windows(windows, aggregation, state, bindings, on_late=on_late, on_close=self.on_close)
            case SessionWindows() as windows:
                return session_windows(windows, aggregation, state, bindings, on_late=on_late, on_close=self.on_close)
            case windows:
                raise TopologyError(f"there is no operator for {windows}")


def _divided(table: KTable, late: _LateTopic) -> KTable:
    """Forward the table's rows from a separate node, so that late records go only to their sink."""
    graph, stream = table.graph, late.stream
    on_time = graph.process(f"{table.node}-on-time", (table.node,), Operator(lambda _: stateless.each))
    topic = valid_name(late.topic, "topic")
    graph.topology.add(SinkNode(f"{table.node}-late", (table.node,), topic, stream.key, stream.value))
    return replace(table, node=on_time)


def windowed(
    grouped: KGroupedStream[K, V], windows: Windows, emit: str, on_late: str | None
) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
    if emit not in EMITS:
        raise TopologyError(f'emit={emit!r} is not known; give "on_update" or "on_close"')
    check_windows(windows)
    if windows.after_end is None and emit == "on_close":
        raise TopologyError('unlimited windows never close, so emit="on_close" would send nothing; leave it out')
    kind = SessionWindowedKStream if isinstance(windows, SessionWindows) else TimeWindowedKStream
    return kind(grouped, windows, emit, on_late)


def check_windows(windows: object) -> None:
    if not isinstance(windows, Windows):
        raise TopologyError(f'windowed_by was given {windows!r:.80}; give windows such as Windows.tumbling("10s")')
