"""KStream: a stream of records, each an event of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.coroutines import Coroutines
from streamtopo.dsl.deduplicating import deduplicated
from streamtopo.dsl.joins import Joins
from streamtopo.dsl.naming import Graph, next_serde
from streamtopo.durations import Duration
from streamtopo.errors import TopologyError
from streamtopo.operators import stateless
from streamtopo.processors import Processor
from streamtopo.records import Step
from streamtopo.serdes import Serde, SerdeLike
from streamtopo.stores import StoreSpec
from streamtopo.stores.build import versioned_store
from streamtopo.topology import Operator, Partitioner, Repartition, SinkNode, SourceNode, valid_name

if TYPE_CHECKING:
    from streamtopo.dsl.grouped import KGroupedStream
    from streamtopo.dsl.ktable import KTable

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class KStream(Coroutines, Joins):
    """Made by a StreamsBuilder. Every operator returns a new stream and leaves this one as it is."""

    graph: Graph
    node: str
    key: Serde
    value: Serde
    key_changed: bool = False

    # -- one record in, one or none out

    def map(
        self,
        function: Callable[[Any, Any], Pair],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """A new key and value for each record: `function(key, value)` returns both."""
        return self._rekeyed("KSTREAM-MAP-", stateless.map_pairs(function), key, value, name)

    def map_values(
        self,
        function: Callable[..., Any],
        *,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """A new value for each record: `function(value)`, or `function(key, value)` with `with_key`."""
        step = stateless.map_values_with_key(function) if with_key else stateless.map_values(function)
        return self._then("KSTREAM-MAPVALUES-", step, value, name)

    def select_key(
        self, function: Callable[[Any, Any], Any], *, key: SerdeLike | None = None, name: str | None = None
    ) -> KStream:
        return self._rekeyed("KSTREAM-KEY-SELECT-", stateless.select_key(function), key, None, name)

    def filter(self, predicate: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        """The records for which `predicate(key, value)` is true."""
        return self._then("KSTREAM-FILTER-", stateless.filter_rows(predicate), None, name)

    def filter_not(self, predicate: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        return self._then("KSTREAM-FILTER-", stateless.filter_rows(predicate, keep=False), None, name)

    def peek(self, function: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        """Call `function(key, value)` for each record and pass it on. After a failure it may see one twice."""
        return self._then("KSTREAM-PEEK-", stateless.peek(function), None, name)

    # -- one record in, any number out

    def flat_map(
        self,
        function: Callable[[Any, Any], Iterable[Pair]],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        return self._rekeyed("KSTREAM-FLATMAP-", stateless.flat_map(function), key, value, name)

    def flat_map_values(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        with_key: bool = False,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        step = stateless.flat_map_values_with_key(function) if with_key else stateless.flat_map_values(function)
        return self._then("KSTREAM-FLATMAPVALUES-", step, value, name)

    # -- whole columns: a model, numpy, Arrow

    def map_batch(
        self,
        function: Callable[[list[Any], list[Any]], tuple[Iterable[Any], Iterable[Any]]],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """`function(keys, values)` returns as many keys and values. It must not matter where a batch is cut."""
        return self._rekeyed("KSTREAM-MAP-", stateless.map_batch(function), key, value, name)

    def map_values_batch(
        self,
        function: Callable[[list[Any]], Iterable[Any]],
        *,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        return self._then("KSTREAM-MAPVALUES-", stateless.map_values_batch(function), value, name)

    # -- several streams

    def merge(self, other: KStream, *, name: str | None = None) -> KStream:
        """The records of both; order is kept within each."""
        if not isinstance(other, KStream):
            raise TopologyError(
                f'"{self.node}" cannot be merged with {other!r:.80}; a stream merges with a stream: make one of a '
                "table with to_stream()"
            )
        self.check_same_builder(other)
        if (self.key, self.value) != (other.key, other.value):
            raise TopologyError(
                f'"{self.node}" and "{other.node}" are merged, but have records of different types: '
                f"{self.key.name}/{self.value.name} and {other.key.name}/{other.value.name}"
            )
        node = self.graph.name("KSTREAM-MERGE-", name)
        self.graph.process(node, (self.node, other.node), Operator(lambda _: stateless.each))
        return replace(self, node=node, key_changed=self.key_changed or other.key_changed)

    def split(
        self,
        branches: Mapping[str, Callable[[Any, Any], object]] | Sequence[Callable[[Any, Any], object]],
        *,
        default: bool | str = False,
        name: str | None = None,
    ) -> dict[str, KStream]:
        """Each record to the first branch whose predicate is true; the rest to the default branch, or nowhere.

        The branches' names are the mapping's keys, or the position from 1; the default's is "0" unless it is given.
        """
        predicates = dict(branches) if isinstance(branches, Mapping) else _numbered(branches)
        names = [*predicates, *([default if isinstance(default, str) else "0"] if default else [])]
        node = self.graph.name("KSTREAM-BRANCH-", name)
        step = stateless.branch(list(predicates.values()), default=bool(default))
        self.graph.process(node, (self.node,), Operator(lambda _: step))
        return {branch: self._branch(node, branch) for branch in names}

    def _branch(self, node: str, branch: str) -> KStream:
        child = valid_name(f"{node}-{branch}", "branch")
        self.graph.process(child, (node,), Operator(lambda _: stateless.each))
        return replace(self, node=child)

    # -- grouping, repartitioning, tables

    def group_by_key(
        self, *, key: SerdeLike | None = None, value: SerdeLike | None = None, name: str | None = None
    ) -> KGroupedStream:
        from streamtopo.dsl.grouped import KGroupedStream

        stream = replace(self, key=next_serde(key, self.key, key=True), value=next_serde(value, self.value))
        return KGroupedStream(stream, name)

    def group_by(
        self,
        function: Callable[[Any, Any], Any],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KGroupedStream:
        """Group by a new key: `function(key, value)`; `name` names the repartition topic."""
        return self.select_key(function, key=key).group_by_key(value=value, name=name)

    def repartition(
        self,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> KStream:
        """Through an internal topic, so that equal keys meet in one task; records without a key are dropped."""
        stream = replace(self, key=next_serde(key, self.key, key=True), value=next_serde(value, self.value))
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
        """The nodes of a repartitioning: a filter of null keys, a sink, and a source behind the internal topic.

        With `read` that source reads values so; with `raw` it hands on keys and values as their bytes.
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

    def to_table(
        self,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        versioned: Duration | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable:
        """The stream read as a table: the latest value of each key; None deletes. With `versioned`, its history too.

        `store` keeps its rows under that name, to be queried; `name` is that of the node and of its repartition topic.
        """
        from streamtopo.dsl.ktable import table_of, versioned_table_of

        node = self.graph.name("KSTREAM-TOTABLE-", name)
        stream = replace(self, key=next_serde(key, self.key, key=True), value=next_serde(value, self.value))
        kept = self.graph.store_name("KSTREAM-TOTABLE-STATE-STORE-", store)
        if self.key_changed:
            stream = stream.repartitioned(name or node, named=name is not None)
        if versioned is not None:
            spec = versioned_store(kept, history=versioned, key=stream.key, value=stream.value)
            return versioned_table_of(stream, node, spec)
        return table_of(stream, node, kept, kept=store is not None)

    def deduplicate(
        self,
        within: Duration,
        *,
        by: Callable[[Any, Any], Any] = lambda key, value: key,
        id: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """Drops a record if one with the same id passed less than `within` before or after it, by their timestamps.

        `by(key, value)` gives the id, of type `id`, else the key is it; records with equal ids need equal keys, which
        bring them into one task. `name` names the store of what has passed.
        """
        return deduplicated(self, within, by, id, name)

    # -- ends

    def to(
        self,
        topic: str | Callable[..., str],
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write into a topic, or into the one that `topic(key, value, context)` names for each record."""
        node = self.graph.name("KSTREAM-SINK-", name)
        target = valid_name(topic, "topic") if isinstance(topic, str) else topic
        serdes = next_serde(key, self.key, key=True), next_serde(value, self.value)
        self.graph.topology.add(SinkNode(node, (self.node,), target, *serdes, partitioner))

    def for_each(self, function: Callable[[Any, Any], object], *, name: str | None = None) -> None:
        self._then("KSTREAM-FOREACH-", stateless.peek(function), None, name)

    def print(self, *, label: str | None = None, name: str | None = None) -> None:
        """Each record as a line on standard output."""
        prefix = f"[{label or self.node}]: "
        step = stateless.peek(lambda key, value: sys.stdout.write(f"{prefix}{key}, {value}\n"))
        self._then("KSTREAM-PRINTER-", step, None, name)

    # -- the user's own processors

    def process(
        self,
        supplier: Callable[[], Processor],
        *,
        stores: Iterable[str | StoreSpec] = (),
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """A processor of your own, made by `supplier` (its class, usually) for each task."""
        node = self._processor("KSTREAM-PROCESSOR-", supplier, stores, name, fixed_key=False)
        return replace(
            self,
            node=node,
            key=next_serde(key, self.key, key=True),
            value=next_serde(value, self.value),
            key_changed=True,
        )

    def process_values(
        self,
        supplier: Callable[[], Processor],
        *,
        stores: Iterable[str | StoreSpec] = (),
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """Like `process`, but it cannot change the key, so nothing need be repartitioned behind it."""
        node = self._processor("KSTREAM-PROCESSVALUES-", supplier, stores, name, fixed_key=True)
        return replace(self, node=node, value=next_serde(value, self.value))

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
        operator = Operator(lambda bindings: bindings.process(node, supplier, fixed_key), records=True)
        return self.graph.process(node, (self.node,), operator, used)

    # -- inside

    def _then(self, prefix: str, step: Step, value: SerdeLike | None, name: str | None) -> KStream:
        node = self.graph.process(self.graph.name(prefix, name), (self.node,), Operator(lambda _: step))
        return replace(self, node=node, value=next_serde(value, self.value))

    def _rekeyed(
        self, prefix: str, step: Step, key: SerdeLike | None, value: SerdeLike | None, name: str | None
    ) -> KStream:
        stream = self._then(prefix, step, value, name)
        return replace(stream, key=next_serde(key, self.key, key=True), key_changed=True)

    def check_same_builder(self, other: KStream | KTable) -> None:
        if other.graph is not self.graph:
            raise TopologyError(f'"{self.node}" and "{other.node}" come from different builders; use one builder')


def _numbered(predicates: Sequence[Callable[[Any, Any], object]]) -> dict[str, Callable[[Any, Any], object]]:
    return {str(place): predicate for place, predicate in enumerate(predicates, start=1)}
