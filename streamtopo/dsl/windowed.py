"""Aggregations of a grouped stream in windows: made by `windowed_by`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamtopo.aggregators import Aggregator
from streamtopo.dsl.finishing import check_said, finished, unsaid
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.naming import ClosingTime, Graph, next_serde
from streamtopo.dsl.origin import KeptOrigin
from streamtopo.durations import Duration, milliseconds
from streamtopo.errors import TopologyError
from streamtopo.operators import stateless
from streamtopo.operators.closing import Closing
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.session_windows import session_windows
from streamtopo.operators.sliding_windows import sliding_windows
from streamtopo.operators.time_windows import time_windows
from streamtopo.operators.windowed import Aggregation, counting, progress_clocks, reducing
from streamtopo.serdes import INT, Serde, SerdeLike
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.layout import segment_of
from streamtopo.stores.state import State
from streamtopo.topology import Bindings, Operator, SinkNode, valid_name
from streamtopo.windowed_serdes import session_windowed, time_windowed, time_windowed_in_store
from streamtopo.windows import FOREVER, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from streamtopo.dsl.grouped import KGroupedStream
    from streamtopo.dsl.kstream import KStream

EMITS = ("on_update", "on_close")


@dataclass(frozen=True)
class _Windowed:
    """`on_close` hands on each row once, when its window closes; `on_update` whenever it changes."""

    grouped: KGroupedStream
    windows: Windows
    emit: str
    on_late: str | None

    def count(self, *, name: str | None = None, retention: Duration | None = None) -> KTable:
        """How many records each key has in each window."""
        return self._table("KSTREAM-AGGREGATE-", counting(), INT, name, retention)

    def reduce(
        self, reducer: Callable[[Any, Any], Any], *, name: str | None = None, retention: Duration | None = None
    ) -> KTable:
        """`reducer(row, value)` for each record; the first value in a window is its first row."""
        return self._table("KSTREAM-REDUCE-", reducing(reducer), self.grouped.stream.value, name, retention)

    def _table(
        self, prefix: str, aggregation: Aggregation, value: Serde, name: str | None, retention: Duration | None
    ) -> KTable:
        graph = self.grouped.stream.graph
        store = graph.store_name(f"{prefix}STATE-STORE-", name)
        node = graph.name(prefix)
        parent = self.grouped.by_key(store, unread=aggregation.counts and self.on_late is None)
        layout = Layout(self.windows, parent.key, value, store, retention, on_close=self.emit == "on_close")
        late = None if self.on_late is None else _Side(self.on_late, parent)
        return layout.table(graph, node, (parent.node,), aggregation, layout.origin(graph, node), late=late)


class TimeWindowedKStream(_Windowed):
    """Rows have keys `Windowed(key, start, end)`. Records for windows that are closed are dropped and counted."""

    def aggregate(
        self,
        init: Callable[[], Any] | Aggregator,
        adder: Callable[[Any, Any, Any], Any] = unsaid,
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> KTable:
        """`adder(key, value, row)` for each record, from `init()` on in each window; None deletes.

        Or one of the ready aggregators: `aggregate(mean())`, from `streamtopo.aggregators`.
        """
        if isinstance(init, Aggregator):
            table = self.aggregate(init.init, init.adder, value=init.value, name=name, retention=retention)
            return finished(init, table)
        check_said(adder=adder)
        serde = next_serde(value, self.grouped.stream.value)
        return self._table("KSTREAM-AGGREGATE-", Aggregation(init, (adder,)), serde, name, retention)


class SessionWindowedKStream(_Windowed):
    """Rows have keys `Windowed(key, start, end)`. A session that grows is deleted, and there again with new ends."""

    def aggregate(
        self,
        init: Callable[[], Any] | Aggregator,
        adder: Callable[[Any, Any, Any], Any] = unsaid,
        merger: Callable[[Any, Any, Any], Any] = unsaid,
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> KTable:
        """`merger(key, row, session)` from `init()` on for all sessions that meet, then `adder(key, value, row)`.

        Or one of the ready aggregators: `aggregate(mean())`, from `streamtopo.aggregators`.
        """
        if isinstance(init, Aggregator):
            table = self.aggregate(init.init, init.adder, init.merger, value=init.value, name=name, retention=retention)
            return finished(init, table)
        check_said(adder=adder, merger=merger)
        serde = next_serde(value, self.grouped.stream.value)
        return self._table("KSTREAM-AGGREGATE-", Aggregation(init, (adder,), merger), serde, name, retention)


@dataclass(frozen=True)
class _Side:
    """Where late records go."""

    topic: str
    stream: KStream


@dataclass(frozen=True)
class Layout:
    """How the rows of windows are kept, and as what keys they go on."""

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
        late: _Side | None = None,
        shared: bool = False,
    ) -> KTable:
        """A node that keeps the rows; with `shared` its parents are groups that are described with the store."""

        def open_step(bindings: Bindings) -> Keeping:
            return self._open(aggregation, origin.open(bindings), bindings, on_late=late is not None)

        stores, uses = ((), (self.store,)) if shared else ((self.store,), ())
        graph.process(node, parents, Operator(open_step), stores, uses=uses)
        if not isinstance(self.windows, UnlimitedWindows):
            clocks = progress_clocks(self.store, len(aggregation.adds))
            graph.closing[node] = ClosingTime(self.windows.after_end, clocks)  # type: ignore[attr-defined]
        table = KTable(graph, node, self.key_on_topics(), self.value, origin)
        return table if late is None else _divided(table, late)

    def origin(self, graph: Graph, node: str) -> KeptOrigin:
        return KeptOrigin(graph, node, self._spec(), kept=True)

    def _spec(self) -> StoreSpec:
        session = isinstance(self.windows, SessionWindows)
        retention = self._kept_for()
        return StoreSpec(
            self.store,
            session_windowed(self.key) if session else time_windowed_in_store(self.key, self._size()),
            self.value,
            Kind.SESSION if session else Kind.TIMESTAMPED_WINDOW,
            cached=not self.on_close,
            retention=retention,
            grace=0 if isinstance(self.windows, UnlimitedWindows) else self.windows.grace,
            segment=retention and segment_of(retention),
            by_time=self.on_close,
            meaning=self.windows.meaning,
        )

    def key_on_topics(self) -> Serde:
        if isinstance(self.windows, SessionWindows):
            return session_windowed(self.key)
        return time_windowed(self.key, self._size())

    def _size(self) -> int:
        match self.windows:
            case TimeWindows(size=size):
                return size
            case SlidingWindows(difference=difference):
                return difference
            case _:
                return FOREVER

    def _kept_for(self) -> int:
        least: int = self.windows.retention  # type: ignore[attr-defined]
        if self.retention is None:
            return least
        retention = milliseconds(self.retention)
        if not least:
            raise TopologyError("unlimited windows keep their rows for ever; leave out their retention")
        if retention < least:
            raise TopologyError(
                f'store "{self.store}" is to keep rows for {retention} ms, and these windows need them for {least}; '
                f"give retention={least} or more, or leave it out"
            )
        return retention

    def _open(self, aggregation: Aggregation, state: State, bindings: Bindings, *, on_late: bool) -> Keeping:
        match self.windows:
            case SessionWindows() as windows:
                return session_windows(windows, aggregation, state, bindings, on_late=on_late, on_close=self.on_close)
            case SlidingWindows() as windows:
                closing = Closing(windows, state, bindings) if self.on_close else None
                return sliding_windows(windows, aggregation, state, bindings, on_late=on_late, closing=closing)
            case TimeWindows() as windows:
                closing = Closing(windows, state, bindings) if self.on_close else None
                return time_windows(windows, aggregation, state, bindings, on_late=on_late, closing=closing)
            case UnlimitedWindows() as windows:
                return time_windows(windows, aggregation, state, bindings, on_late=on_late)
            case _:
                raise AssertionError(f"{self.windows} are windows that nobody knows")


def _divided(table: KTable, late: _Side) -> KTable:
    """The table's rows go on from a node of their own, so that late records can go elsewhere."""
    graph, stream = table.graph, late.stream
    on_time = graph.process(f"{table.node}-on-time", (table.node,), Operator(lambda _: stateless.each))
    topic = valid_name(late.topic, "topic")
    graph.topology.add(SinkNode(f"{table.node}-late", (table.node,), topic, stream.key, stream.value))
    return replace(table, node=on_time)


def windowed(
    grouped: KGroupedStream, windows: Windows, emit: str, on_late: str | None
) -> TimeWindowedKStream | SessionWindowedKStream:
    if emit not in EMITS:
        raise TopologyError(f'emit={emit!r} is not known; give "on_update" or "on_close"')
    check_windows(windows)
    if isinstance(windows, UnlimitedWindows) and emit == "on_close":
        raise TopologyError('unlimited windows never close, so emit="on_close" would hand on nothing; leave it out')
    kind = SessionWindowedKStream if isinstance(windows, SessionWindows) else TimeWindowedKStream
    return kind(grouped, windows, emit, on_late)


def check_windows(windows: object) -> None:
    if not isinstance(windows, TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows):
        raise TopologyError(f'windowed_by was given {windows!r:.80}; give windows such as Windows.tumbling("10s")')
