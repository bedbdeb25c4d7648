"""KGroupedStream: a stream whose records of one key are to be made into one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

from streamtopo.aggregators import Aggregator
from streamtopo.dsl.cogrouped import CogroupedKStream, Part
from streamtopo.dsl.finishing import check_said, finished, unsaid
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.naming import next_serde
from streamtopo.dsl.origin import KeptOrigin
from streamtopo.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream, windowed
from streamtopo.operators import aggregate
from streamtopo.operators.keeping import Keeping
from streamtopo.serdes import BYTES, INT, Serde, SerdeLike
from streamtopo.stores import StoreSpec
from streamtopo.stores.state import State
from streamtopo.topology import Operator
from streamtopo.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

Open = Callable[[State, aggregate.Dropped], Keeping]


@dataclass
class KGroupedStream:
    """Made by `group_by` or `group_by_key`. Records without a key or without a value are dropped and counted."""

    stream: KStream
    name: str | None = None
    _repartitioned: KStream | None = field(default=None, init=False)

    def count(self, *, name: str | None = None) -> KTable:
        """How many records each key has had."""
        raw = self.stream.key_changed and self.name is None and self.stream.key.exact
        return self._aggregated("KSTREAM-AGGREGATE-", partial(aggregate.count, raw=raw), INT, name, raw=raw)

    def reduce(self, reducer: Callable[[Any, Any], Any], *, name: str | None = None) -> KTable:
        """`reducer(row, value)` for each record; the first value of a key is its first row."""
        return self._aggregated(
            "KSTREAM-REDUCE-",
            lambda state, dropped: aggregate.reduce(state, reducer, dropped),
            self.stream.value,
            name,
        )

    def aggregate(
        self,
        init: Callable[[], Any] | Aggregator,
        adder: Callable[[Any, Any, Any], Any] = unsaid,
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KTable:
        """`adder(key, value, row)` for each record, from `init()` on; a row that becomes None is deleted.

        Or one of the ready aggregators: `aggregate(mean())`, from `streamtopo.aggregators`.
        """
        if isinstance(init, Aggregator):
            return finished(init, self.aggregate(init.init, init.adder, value=init.value, name=name))
        check_said(adder=adder)
        return self._aggregated(
            "KSTREAM-AGGREGATE-",
            lambda state, dropped: aggregate.aggregate(state, init, (adder,), dropped),
            next_serde(value, self.stream.value),
            name,
        )

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, emit: str = "on_update", on_late: str | None = None
    ) -> SessionWindowedKStream: ...

    @overload
    def windowed_by(
        self,
        windows: TimeWindows | SlidingWindows | UnlimitedWindows,
        *,
        emit: str = "on_update",
        on_late: str | None = None,
    ) -> TimeWindowedKStream: ...

    def windowed_by(
        self, windows: Windows, *, emit: str = "on_update", on_late: str | None = None
    ) -> TimeWindowedKStream | SessionWindowedKStream:
        """One row for each key and window. `on_late` is a topic for records that come when all theirs are closed.

        With emit="on_update" rows go on whenever they change, with "on_close" once, when their window closes.
        """
        return windowed(self, windows, emit, on_late)

    def cogroup(self, adder: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """This group and others, given to the result's `cogroup`, are to make one row together."""
        return CogroupedKStream((Part(self, adder),))

    def _aggregated(self, prefix: str, open_step: Open, value: Serde, name: str | None, *, raw: bool = False) -> KTable:
        graph = self.stream.graph
        store = graph.store_name(f"{prefix}STATE-STORE-", name)
        node = graph.name(prefix)
        parent = self.by_key(store, raw=raw)
        origin = KeptOrigin(graph, node, StoreSpec(store, parent.key, value, cached=True), kept=True)
        operator = Operator(lambda bindings: open_step(origin.open(bindings), bindings.count))
        graph.process(node, (parent.node,), operator, (store,))
        return KTable(graph, node, parent.key, value, origin)

    def by_key(self, store: str, *, unread: bool = False, raw: bool = False) -> KStream:
        """The stream with equal keys in one task; a named repartition topic serves all aggregations of this group.

        Behind a topic of its own, values that nobody reads are not decoded again; with `raw`, nor are keys.
        """
        if not self.stream.key_changed:
            return self.stream
        if self.name is None:
            return self.stream.repartitioned(store, read=BYTES if unread else None, raw=raw)
        if self._repartitioned is None:
            self._repartitioned = self.stream.repartitioned(self.name, named=True)
        return self._repartitioned
