"""KTable: the latest value of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from streamtopo.dsl.graph import Graph, next_serde, shown
from streamtopo.dsl.grouped_table import KGroupedTable
from streamtopo.dsl.joins import table_join
from streamtopo.dsl.joins.foreign_key_join import ForeignKeyJoin
from streamtopo.dsl.tables.derived import Transform, filter_table, map_table, transform_table
from streamtopo.dsl.tables.origin import KeptOrigin, Origin, upserted
from streamtopo.dsl.tables.suppress import Suppressed, suppress
from streamtopo.errors import TopologyError
from streamtopo.hints import hinted
from streamtopo.operators.tables import aggregate_table, conversions
from streamtopo.processors import ValueTransformer
from streamtopo.records.type_parameters import K2, TK, V1, V2, V3, V
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.settings.on_error import OnError
from streamtopo.steps import StepLike
from streamtopo.stores import StoreSpec
from streamtopo.topology.answering import answering
from streamtopo.topology.functions import check_function, with_key_or_not
from streamtopo.topology.operator import Bindings, Operator, Timing

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream


@hinted
@dataclass(frozen=True)
class KTable(Generic[TK, V]):
    """Operators return a new table. With `name`, its rows are kept in a store of that name, for queries."""

    graph: Graph
    node: str
    key: Serde
    value: Serde
    origin: Origin

    def __repr__(self) -> str:
        return shown(self) + (f" with the store {self.store}" if self.store else "")

    @property
    def store(self) -> str | None:
        """The name of the store with its rows, for `process(stores=[table.store])` and queries, or None."""
        return None if self.origin.store is None else self.origin.store.name

    @property
    def versioned(self) -> bool:
        """Whether it keeps a history of its rows."""
        return self.origin.store is not None and self.origin.versioned

    @answering
    def suppress(
        self, suppressed: Suppressed, *, name: str | None = None, on_error: OnError | None = None
    ) -> KTable[TK, V]:
        """Hold back updates, and send only the last: `until_window_closes()` or `until_time_limit("5s")`."""
        return suppress(self, suppressed, name)

    @overload
    def to_stream(self, *, name: str | None = None, on_error: OnError | None = None) -> KStream[TK, V]: ...
    @overload
    def to_stream(
        self,
        function: Callable[[TK, V], K2],
        *,
        key: SerdeLike[K2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V]: ...
    @answering
    def to_stream(
        self,
        function: Callable[[Any, Any], Any] | None = None,
        *,
        key: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream:
        """A stream of the updates. `function(key, value)` returns a new key. The value of a deleted row is None."""
        from streamtopo.dsl.kstream import KStream  # which imports this module

        if function is not None:
            check_function("to_stream", "function(key, value)", function)
        node = self.graph.name("KTABLE-TOSTREAM-", name)
        self.graph.process(node, (self.node,), Operator(lambda _: conversions.updates))
        stream = KStream(self.graph, node, self.key, self.value)
        return stream if function is None else stream.select_key(function, key=key)

    # -- row by row

    @answering
    def filter(
        self: KTable[TK, V1 | None],
        predicate: Callable[[TK, V1], object],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V]:
        """The rows for which `predicate(key, value)` is true. A row for which it becomes false is deleted."""
        check_function("KTable.filter", "predicate(key, value)", predicate)
        return filter_table(self, predicate, name, keep=True)

    @answering
    def filter_not(
        self: KTable[TK, V1 | None],
        predicate: Callable[[TK, V1], object],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V]:
        """The rows for which `predicate(key, value)` is false. Other rows are deleted."""
        check_function("KTable.filter_not", "predicate(key, value)", predicate)
        return filter_table(self, predicate, name, keep=False)

    @overload
    def map_values(
        self: KTable[TK, V1 | None],
        function: Callable[[V1], V2 | None],
        *,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V2]: ...
    @overload
    def map_values(
        self: KTable[TK, V1 | None],
        function: Callable[[TK, V1], V2 | None],
        *,
        with_key: Literal[True],
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V2]: ...
    @answering
    def map_values(
        self,
        function: Callable[..., Any],
        *,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """A new value for each row: `function(value)`, or `function(key, value)` with `with_key`. None means no row."""
        check_function("KTable.map_values", with_key_or_not("function", with_key), function, with_key=with_key)
        return map_table(self, function, value, name, with_key=with_key)

    @overload
    def transform_values(
        self: KTable[TK, V1 | None],
        transformer: Callable[[TK, V1 | None], V2 | None],
        *,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V2]: ...
    @overload
    def transform_values(
        self: KTable[TK, V1 | None],
        transformer: Callable[[], ValueTransformer[TK, V, V2]],
        *,
        stores: Iterable[str | StoreSpec] = (),
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V2]: ...
    @answering
    def transform_values(
        self,
        transformer: Transform,
        *,
        stores: Iterable[str | StoreSpec] = (),
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """Like `map_values`, but also called for deleted rows, with the value None.

        `transformer` is a function of (key, value), or the class of a ValueTransformer; each task creates its own.
        """
        return transform_table(self, transformer, stores, value, name)

    # -- grouping

    @answering
    def group_by(
        self: KTable[TK, V1 | None],
        function: Callable[[TK, V1], tuple[K2 | None, V2 | None] | None],
        *,
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group by a new key: `function(key, value)` returns key and value. `name` is that of the repartition topic."""
        check_function("KTable.group_by", "function(key, value)", function)
        self.origin.send_old(keep=True)
        key_serde, value_serde = next_serde(key, self.key, key=True), next_serde(value, self.value)
        operator = Operator(
            lambda bindings: aggregate_table.regroup(function, key_serde, bindings.count),
            function=function,
            makes="key and value",
        )
        node = self.graph.process(self.graph.name("KTABLE-SELECT-", name), (self.node,), operator)
        return KGroupedTable(self, node, key_serde, value_serde, name)

    # -- joins

    @overload
    def join(
        self: KTable[TK, V1 | None],
        other: KTable[TK, V2],
        joiner: Callable[[V1, V2], V3 | None],
        *,
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]: ...
    @overload
    def join(
        self: KTable[TK, V1 | None],
        other: KTable[K2, V2],
        joiner: Callable[[V1, V2], V3 | None],
        *,
        foreign_key: Callable[[V1], K2 | None],
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]: ...
    @overload
    def join(
        self: KTable[TK, V1 | None],
        other: KTable[K2, V2],
        joiner: Callable[[V1, V2], V3 | None],
        *,
        foreign_key: Callable[[TK, V1], K2 | None],
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]: ...
    @answering
    def join(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """Join the rows of both tables with equal keys: `joiner(value, other value)`.

        With `foreign_key`, each row is joined with the row of `other` whose key is `foreign_key(value)`, or
        `foreign_key(key, value)` with `with_key`. The result has the keys of this table.
        """
        _check_joiner("KTable.join", joiner, foreign_key, with_key)
        if foreign_key is None:
            return self._joined(other, joiner, table_join.INNER, value, name)
        return self._joined_by(other, joiner, _of_both(foreign_key, with_key), value, name, left=False)

    @overload
    def left_join(
        self: KTable[TK, V1 | None],
        other: KTable[TK, V2],
        joiner: Callable[[V1, V2 | None], V3 | None],
        *,
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]: ...
    @overload
    def left_join(
        self: KTable[TK, V1 | None],
        other: KTable[K2, V2],
        joiner: Callable[[V1, V2 | None], V3 | None],
        *,
        foreign_key: Callable[[V1], K2 | None],
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]: ...
    @overload
    def left_join(
        self: KTable[TK, V1 | None],
        other: KTable[K2, V2],
        joiner: Callable[[V1, V2 | None], V3 | None],
        *,
        foreign_key: Callable[[TK, V1], K2 | None],
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]: ...
    @answering
    def left_join(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """Like `join`, but a row without a match in `other` is joined with None."""
        _check_joiner("KTable.left_join", joiner, foreign_key, with_key)
        if foreign_key is None:
            return self._joined(other, joiner, table_join.LEFT, value, name)
        return self._joined_by(other, joiner, _of_both(foreign_key, with_key), value, name, left=True)

    @answering
    def outer_join(
        self: KTable[TK, V1 | None],
        other: KTable[TK, V2],
        joiner: Callable[[V1 | None, V2 | None], V3 | None],
        *,
        value: SerdeLike[V3] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[TK, V3]:
        """All rows of both tables. `joiner` gets None for a missing row."""
        _check_joiner("KTable.outer_join", joiner)
        return self._joined(other, joiner, table_join.OUTER, value, name)

    def _joined(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        kind: table_join.RowsRequired,
        value: SerdeLike | None,
        name: str | None,
    ) -> KTable:
        self._check_same_builder(other)
        return table_join.join_tables(self, other, joiner, kind, value=value, name=name)

    def _joined_by(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        foreign_key: Callable[[Any, Any], Any],
        value: SerdeLike | None,
        name: str | None,
        *,
        left: bool,
    ) -> KTable:
        self._check_same_builder(other)
        return ForeignKeyJoin(self, other, foreign_key, joiner, left, name).build(value)

    def _check_same_builder(self, other: KTable) -> None:
        if not isinstance(other, KTable):
            raise TopologyError(
                f"{self!r} cannot be joined with {other!r:.80}; a table can only be joined with a table; "
                "convert a stream with to_table(), or join the stream with this table"
            )
        if other.graph is not self.graph:
            raise TopologyError(f"{self!r} and {other!r} come from different builders; use one builder")


def _check_joiner(
    method: str, joiner: Callable[..., Any], foreign_key: Callable[..., Any] | None = None, with_key: bool = False
) -> None:
    check_function(method, "joiner(value, other)", joiner)
    if foreign_key is not None:
        check_function(method, with_key_or_not("foreign_key", with_key), foreign_key, with_key=with_key)


def _of_both(foreign_key: Callable[..., Any], with_key: bool) -> Callable[[Any, Any], Any]:
    return foreign_key if with_key else lambda _, value: foreign_key(value)


def table_of(stream: KStream, node: str, store: str, *, kept: bool) -> KTable:
    """A table of a stream's records as updates. Its rows are kept with `kept`, or if a later join needs them."""
    spec = StoreSpec(store, stream.key, stream.value, cached=True)
    origin = upserted(stream.graph, node, stream.node, spec, kept=kept)
    return KTable(stream.graph, node, stream.key, stream.value, origin)


def versioned_table_of(stream: KStream, node: str, spec: StoreSpec) -> KTable:
    """Like `table_of`, with a versioned store."""
    origin = KeptOrigin(stream.graph, node, spec, kept=True)

    def open_step(bindings: Bindings) -> StepLike:
        state, time = bindings.state(spec.name), bindings.clock(spec.name)
        return conversions.upsert_versions(state, time, bindings.count, sends_old=origin.sends_old)

    stream.graph.process(node, (stream.node,), Operator(open_step, timing=Timing.USED), (spec.name,))
    return KTable(stream.graph, node, stream.key, stream.value, origin)
