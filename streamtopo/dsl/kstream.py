"""KStream: a stream of records, each of which is an event."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from streamtopo.dsl.deduplicate import deduplicated
from streamtopo.dsl.graph import Graph, next_serde, shown, stateless_operator
from streamtopo.dsl.grouped import KGroupedStream
from streamtopo.dsl.joins.stream_joins import StreamJoins
from streamtopo.dsl.ktable import KTable, table_of, versioned_table_of
from streamtopo.errors import TopologyError
from streamtopo.hints import hinted
from streamtopo.operators import stateless
from streamtopo.operators.coroutines import for_each_async, map_values_async
from streamtopo.processors import Processor, RecordContext
from streamtopo.records import ChunkFunction
from streamtopo.records.type_parameters import K1, K2, V1, V2, K, V
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.settings.on_error import OnError
from streamtopo.stores import StoreSpec
from streamtopo.stores.build import versioned_store
from streamtopo.topology.answering import answering
from streamtopo.topology.coroutines import Awaiting, CallLimits, Coroutine
from streamtopo.topology.functions import check_function, with_key_or_not
from streamtopo.topology.names import valid_name
from streamtopo.topology.nodes import Partitioner, Repartition, SinkNode, SourceNode
from streamtopo.topology.operator import Operator

_FIRST_PAUSE = 0.1
"""Seconds before a call is tried again for the first time."""
_ROUND_OF_CALLS = 10
"""How many times `concurrency` calls are made before there may be a commit."""


def _its_key(key: Any, value: Any) -> Any:
    return key


@hinted
@dataclass(frozen=True)
class KStream(StreamJoins[K, V]):
    """Made by a StreamsBuilder. Operators return a new stream, and do not change this one."""

    graph: Graph
    node: str
    key: Serde
    value: Serde
    key_changed: bool = False

    def __repr__(self) -> str:
        return shown(self)

    # -- one record in, one or none out

    @overload
    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: SerdeLike[K2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2 | None]],
        *,
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V2],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]: ...
    @answering
    def map(
        self,
        function: Callable[[K, V], tuple[Any, Any]],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream:
        """A new key and value for each record: `function(key, value)` returns both."""
        check_function("map", "function(key, value)", function)
        return self._rekeyed("KSTREAM-MAP-", stateless.map_pairs(function), function, key, value, name)

    @overload
    def map_values(
        self, function: Callable[[V], V2], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[V], V2 | None],
        *,
        value: SerdeLike[V2],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2 | None],
        *,
        with_key: Literal[True],
        value: SerdeLike[V2],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    @answering
    def map_values(
        self,
        function: Callable[..., Any],
        *,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream:
        """A new value for each record: `function(value)`, or `function(key, value)` with `with_key`."""
        check_function("map_values", with_key_or_not("function", with_key), function, with_key=with_key)
        step = stateless.map_values_with_key(function) if with_key else stateless.map_values(function)
        return self._then("KSTREAM-MAPVALUES-", step, function, value, name)

    @answering
    def select_key(
        self,
        function: Callable[[K, V], K2],
        *,
        key: SerdeLike[K2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V]:
        """A new key for each record: `function(key, value)`."""
        check_function("select_key", "function(key, value)", function)
        return self._rekeyed("KSTREAM-KEY-SELECT-", stateless.select_key(function), function, key, None, name)

    @answering
    def filter(
        self, predicate: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """The records for which `predicate(key, value)` is true."""
        check_function("filter", "predicate(key, value)", predicate)
        return self._then("KSTREAM-FILTER-", stateless.filter_rows(predicate), predicate, None, name)

    @answering
    def filter_not(
        self, predicate: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """The records for which `predicate(key, value)` is false."""
        check_function("filter_not", "predicate(key, value)", predicate)
        return self._then("KSTREAM-FILTER-", stateless.filter_rows(predicate, keep=False), predicate, None, name)

    @answering
    def peek(
        self, function: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """Call `function(key, value)` for each record and forward it. After a failure the call may be repeated."""
        check_function("peek", "function(key, value)", function)
        return self._then("KSTREAM-PEEK-", stateless.peek(function), function, None, name)

    # -- one record in, any number out

    @answering
    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]:
        """Any number of new records for each record: `function(key, value)` returns pairs of a key and a value."""
        check_function("flat_map", "function(key, value)", function)
        return self._rekeyed("KSTREAM-FLATMAP-", stateless.flat_map(function), function, key, value, name)

    @overload
    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]],
        *,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        function: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    @answering
    def flat_map_values(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream:
        """Any number of values for each record: `function(value)`, or `function(key, value)` with `with_key`."""
        check_function("flat_map_values", with_key_or_not("function", with_key), function, with_key=with_key)
        step = stateless.flat_map_values_with_key(function) if with_key else stateless.flat_map_values(function)
        return self._then("KSTREAM-FLATMAPVALUES-", step, function, value, name)

    # -- coroutines: a service to ask, a model to wait for

    @answering
    def map_values_async(
        self,
        function: Callable[[V], Awaitable[V2]],
        *,
        concurrency: int = 100,
        timeout: Duration = "30s",
        retries: int = 0,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]:
        """A new value for each record: the awaited `function(value)`. The results are in order.

        Up to `concurrency` calls run at the same time. A call that fails or takes longer than `timeout` is repeated up
        to `retries` times; then the record fails, as in any other step. Records are committed only after their calls,
        so a failure may repeat calls.
        """
        limits = CallLimits(concurrency, milliseconds(timeout) / 1000, retries, _FIRST_PAUSE)
        check_function("map_values_async", "function(value)", function, awaited=True)
        return self._awaiting("KSTREAM-MAPVALUES-", map_values_async, function, limits, value, name)

    @answering
    def for_each_async(
        self,
        function: Callable[[K, V], Awaitable[object]],
        *,
        concurrency: int = 100,
        timeout: Duration = "30s",
        retries: int = 0,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Await `function(key, value)` for each record. Calls start in order; up to `concurrency` run together."""
        limits = CallLimits(concurrency, milliseconds(timeout) / 1000, retries, _FIRST_PAUSE)
        check_function("for_each_async", "function(key, value)", function, awaited=True)
        self._awaiting("KSTREAM-FOREACH-", for_each_async, function, limits, None, name)

    def _awaiting(
        self,
        prefix: str,
        step_of: Callable[[Coroutine, CallLimits, Awaiting], ChunkFunction],
        function: Coroutine,
        limits: CallLimits,
        value: SerdeLike | None,
        name: str | None,
    ) -> KStream:
        operator = Operator(
            lambda bindings: step_of(function, limits, bindings.await_all),
            at_once=_ROUND_OF_CALLS * limits.concurrency,
            stateless=True,
            function=function,
        )
        node = self.graph.process(self.graph.name(prefix, name), (self.node,), operator)
        return replace(self, node=node, value=next_serde(value, self.value))

    # -- whole columns: a model, numpy, Arrow

    @answering
    def map_batch(
        self,
        function: Callable[[list[K], list[V]], tuple[Iterable[K2], Iterable[V2]]],
        *,
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]:
        """`function(keys, values)` returns as many keys and values as it gets. Results must not depend on batches."""
        check_function("map_batch", "function(keys, values)", function)
        return self._rekeyed("KSTREAM-MAP-", stateless.map_batch(function), function, key, value, name)

    @answering
    def map_values_batch(
        self,
        function: Callable[[list[V]], Iterable[V2]],
        *,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]:
        """New values for many records in one call: `function(values)` returns as many values as it gets."""
        check_function("map_values_batch", "function(values)", function)
        return self._then("KSTREAM-MAPVALUES-", stateless.map_values_batch(function), function, value, name)

    # -- several streams

    @answering
    def merge(self, other: KStream[K, V], *, name: str | None = None, on_error: OnError | None = None) -> KStream[K, V]:
        """The records of both streams. The order within each is kept."""
        if not isinstance(other, KStream):
            raise TopologyError(
                f"{self!r} cannot be merged with {other!r:.80}; a stream can only be merged with a stream; "
                "convert a table with to_stream()"
            )
        self.check_same_builder(other)
        if (self.key, self.value) != (other.key, other.value):
            raise TopologyError(
                f"{self!r} and {other!r} are merged, but have records of different types: "
                f"{self.key.name}/{self.value.name} and {other.key.name}/{other.value.name}"
            )
        node = self.graph.name("KSTREAM-MERGE-", name)
        operator = Operator(lambda _: stateless.each, stateless=True, forwards_all=True)
        self.graph.process(node, (self.node, other.node), operator)
        return replace(self, node=node, key_changed=self.key_changed or other.key_changed)

    @answering
    def split(
        self,
        branches: Mapping[str, Callable[[K, V], object]] | Sequence[Callable[[K, V], object]],
        *,
        default: bool | str = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> dict[str, KStream[K, V]]:
        """Send each record to the first branch whose predicate is true, or to the default branch, if there is one.

        The names of the branches are the keys of the mapping, or "1", "2", … The default branch is "0", or
        has the name `default`.
        """
        predicates = dict(branches) if isinstance(branches, Mapping) else _numbered(branches)
        for predicate in predicates.values():
            check_function("split", "predicate(key, value)", predicate)
        names = [*predicates, *([default if isinstance(default, str) else "0"] if default else [])]
        node = self.graph.name("KSTREAM-BRANCH-", name)
        step = stateless.branch(list(predicates.values()), default=bool(default))
        self.graph.process(node, (self.node,), Operator(lambda _: step, stateless=True))
        return {branch: self._branch(node, branch) for branch in names}

    def _branch(self, node: str, branch: str) -> KStream[K, V]:
        child = valid_name(f"{node}-{branch}", "branch")
        self.graph.process(child, (node,), Operator(lambda _: stateless.each, stateless=True))
        return replace(self, node=child)

    # -- grouping, repartitioning, tables

    def group_by_key(
        self: KStream[K1 | None, V1 | None],
        *,
        key: SerdeLike[K1] | None = None,
        value: SerdeLike[V1] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K1, V]:
        """Group by the key that the records have. `name` is the name of the repartition topic, if one is needed."""
        stream: KStream = replace(self, key=next_serde(key, self.key, key=True), value=next_serde(value, self.value))
        return KGroupedStream(stream, name)

    @answering
    def group_by(
        self: KStream[K, V1 | None],
        function: Callable[[K, V], K2 | None],
        *,
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V1] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KGroupedStream[K2, V]:
        """Group by a new key, which `function(key, value)` returns. `name` is the name of the repartition topic."""
        check_function("group_by", "function(key, value)", function)
        stream: Any = self
        keyed: KGroupedStream = stream.select_key(function, key=key).group_by_key(value=value, name=name)
        return keyed

    @answering
    def repartition(
        self: KStream[K1 | None, V1 | None],
        *,
        key: SerdeLike[K1] | None = None,
        value: SerdeLike[V1] | None = None,
        partitions: int | None = None,
        partitioner: Callable[[str, K, V, int], int | None] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K1, V]:
        """Send the records through an internal topic, so that equal keys are in one task. Null keys are dropped."""
        stream: KStream = replace(self, key=next_serde(key, self.key, key=True), value=next_serde(value, self.value))
        base = self.graph.name("KSTREAM-REPARTITION-", name)
        return stream.repartitioned(base, named=name is not None, partitions=partitions, partitioner=partitioner)

    def repartitioned(
        self,
        base: str,
        *,
        named: bool = False,
        read: Serde | None = None,
        raw: bool = False,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> KStream:
        """Add the nodes of a repartitioning: a filter of null keys, a sink, and a source of the internal topic.

        With `read` the source uses that serde for values; with `raw` it forwards keys and values as bytes.
        """
        graph, topic = self.graph, f"{base}-repartition"
        sink = graph.name("KSTREAM-SINK-", f"{topic}-sink" if named else None)
        filtering = graph.name("KSTREAM-FILTER-", f"{topic}-filter" if named else None)
        source = graph.name("KSTREAM-SOURCE-", f"{topic}-source" if named else None)
        graph.topology.add_repartition(Repartition(topic, partitions))
        graph.repartition_filter(filtering, self.node)
        graph.topology.add(SinkNode(sink, (filtering,), topic, self.key, self.value, partitioner))
        value = read or self.value
        graph.topology.add(SourceNode(source, (topic,), self.key, value, raw=raw))
        return replace(self, node=source, value=value, key_changed=False)

    @answering
    def to_table(
        self: KStream[K1 | None, V1 | None],
        *,
        key: SerdeLike[K1] | None = None,
        value: SerdeLike[V1] | None = None,
        versioned: Duration | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K1, V1]:
        """Read the stream as a table: the latest value of each key. None deletes a row.

        `versioned="10m"` keeps this much history. `store` is the name of a store for its rows, for queries. `name` is
        the name of the node and of the repartition topic.
        """
        node = self.graph.name("KSTREAM-TOTABLE-", name)
        stream: KStream = replace(self, key=next_serde(key, self.key, key=True), value=next_serde(value, self.value))
        kept = self.graph.store_name("KSTREAM-TOTABLE-STATE-STORE-", store)
        if self.key_changed:
            stream = stream.repartitioned(name or node, named=name is not None)
        if versioned is not None:
            spec = versioned_store(kept, history=versioned, key=stream.key, value=stream.value)
            return versioned_table_of(stream, node, spec)
        return table_of(stream, node, kept, kept=store is not None)

    @answering
    def deduplicate(
        self,
        within: Duration,
        *,
        by: Callable[[K, V], Any] = _its_key,
        id: SerdeLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Drop a record if another one with the same id has passed, with a timestamp less than `within` apart.

        `by(key, value)` returns the id, of type `id`; the default is the key. Records with equal ids must have equal
        keys, so that they are in one task. `name` is the name of the store with the ids.
        """
        check_function("deduplicate", "by(key, value)", by)
        return deduplicated(self, within, by, id, name)

    # -- ends

    @answering
    def to(
        self: KStream[K1 | None, V1 | None],
        topic: str | Callable[[K, V, RecordContext], str],
        *,
        key: SerdeLike[K1] | None = None,
        value: SerdeLike[V1] | None = None,
        partitioner: Callable[[str, K, V, int], int | None] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Write to a topic, or for each record to the topic that the function `topic(key, value, context)` returns."""
        node = self.graph.name("KSTREAM-SINK-", name)
        target = valid_name(topic, "topic") if isinstance(topic, str) else topic
        serdes = next_serde(key, self.key, key=True), next_serde(value, self.value)
        self.graph.topology.add(SinkNode(node, (self.node,), target, *serdes, partitioner))

    @answering
    def for_each(
        self, function: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """Call `function(key, value)` for each record. After a failure the call may be repeated."""
        check_function("for_each", "function(key, value)", function)
        self._then("KSTREAM-FOREACH-", stateless.peek(function), function, None, name)

    def print(self, *, label: str | None = None, name: str | None = None) -> None:
        """Print each record on standard output."""
        prefix = f"[{label or self.node}]: "
        step = stateless.peek(lambda key, value: sys.stdout.write(f"{prefix}{key}, {value}\n"))
        self._then("KSTREAM-PRINTER-", step, None, None, name)

    # -- the user's own processors

    @answering
    def process(
        self,
        supplier: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Iterable[str | StoreSpec] = (),
        key: SerdeLike[K2] | None = None,
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]:
        """Process records with your own processor. `supplier` is its class, or a function that creates it."""
        check_function("process", "supplier()", supplier)
        node = self._processor("KSTREAM-PROCESSOR-", supplier, stores, name, fixed_key=False)
        keys, values = next_serde(key, self.key, key=True), next_serde(value, self.value)
        return KStream(self.graph, node, keys, values, key_changed=True)

    @answering
    def process_values(
        self,
        supplier: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Iterable[str | StoreSpec] = (),
        value: SerdeLike[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V2]:
        """Like `process`, but the key must stay, so no repartition topic is needed after it."""
        check_function("process_values", "supplier()", supplier)
        node = self._processor("KSTREAM-PROCESSVALUES-", supplier, stores, name, fixed_key=True)
        return KStream(self.graph, node, self.key, next_serde(value, self.value), self.key_changed)

    def _processor(
        self,
        prefix: str,
        supplier: Callable[[], Processor],
        stores: Iterable[str | StoreSpec],
        name: str | None,
        *,
        fixed_key: bool,
    ) -> str:
        node = self.graph.name(prefix, name)
        used = self.graph.use_stores(node, stores)
        operator = Operator(
            lambda bindings: bindings.process(node, supplier, fixed_key),
            records=True,
            function=supplier,
            makes="value" if fixed_key else "key and value",
        )
        return self.graph.process(node, (self.node,), operator, used)

    # -- inside

    def _then(
        self, prefix: str, step: ChunkFunction, function: object, value: SerdeLike | None, name: str | None
    ) -> KStream:
        operator = stateless_operator(prefix, step, function)
        node = self.graph.process(self.graph.name(prefix, name), (self.node,), operator)
        return replace(self, node=node, value=next_serde(value, self.value))

    def _rekeyed(
        self,
        prefix: str,
        step: ChunkFunction,
        function: object,
        key: SerdeLike | None,
        value: SerdeLike | None,
        name: str | None,
    ) -> KStream:
        stream = self._then(prefix, step, function, value, name)
        return replace(stream, key=next_serde(key, self.key, key=True), key_changed=True)

    def check_same_builder(self, other: KStream | KTable) -> None:
        if other.graph is not self.graph:
            raise TopologyError(f"{self!r} and {other!r} come from different builders; use one builder")


def _numbered(predicates: Sequence[Callable[[K, V], object]]) -> dict[str, Callable[[K, V], object]]:
    return {str(place): predicate for place, predicate in enumerate(predicates, start=1)}
