"""A topology: a graph of sources, processors, sinks and stores. It is data, and runs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from streamtopo.errors import TopologyError
from streamtopo.hints import hinted
from streamtopo.serdes import SerdeLike, serde_of
from streamtopo.settings.on_error import OnError, Policy
from streamtopo.stores import StoreSpec
from streamtopo.timestamps import MaxAheadLike, TimestampLike, max_ahead_of, timestamp_of
from streamtopo.topology.answering import answering
from streamtopo.topology.code_places import code_place_of
from streamtopo.topology.description import described, summary
from streamtopo.topology.functions import check_function, check_timestamp_function
from streamtopo.topology.names import names_or_pattern, valid_name
from streamtopo.topology.nodes import Node, Partitioner, ProcessorNode, Repartition, SinkNode, SourceNode, Subtopology
from streamtopo.topology.operator import Operator


@hinted
class Topology:
    """The nodes of an application, in the order in which they were added: parents first, so there can be no cycle."""

    def __init__(self, application_id: str = "app") -> None:
        self.application_id = valid_name(application_id, "application id")
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.repartitions: dict[str, Repartition] = {}
        self.on_error: Policy | None = None
        """What to do with records that fail in nodes without an answer of their own; None: stop."""
        self._answer: Policy | None = None
        """That of the nodes that are being added."""

    __repr__ = summary

    # -- building

    def add(self, node: Node) -> Node:
        valid_name(node.name, "node")
        if node.name in self.nodes:
            raise TopologyError(f'there are two nodes named "{node.name}"; give one of them another name')
        if not isinstance(node, SourceNode) and not node.parents:
            raise TopologyError(f'node "{node.name}" has no parent, so nothing would reach it; name one')
        for parent in node.parents:
            self._check_parent(node.name, parent)
        match node:
            case SourceNode():
                self._check_source(node)
            case ProcessorNode(stores=stores):
                for store in stores:
                    self._check_store(node.name, store)
            case SinkNode():
                _check_sink(node)
        placed = _placed(node)
        self.nodes[node.name] = placed if self._answer is None else replace(placed, on_error=self._answer)
        return node

    @contextmanager
    def with_answer(self, answer: Policy) -> Iterator[None]:
        """Nodes that are added in this block have this answer to records that fail in them."""
        before, self._answer = self._answer, answer
        try:
            yield
        finally:
            self._answer = before

    @answering
    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        on_error: OnError | None = None,
    ) -> Self:
        """A source of one or more topics, or of all topics whose whole name matches a pattern."""
        names, pattern = names_or_pattern(name, topics)
        source = SourceNode(name, names, serde_of(key, key=True), serde_of(value), pattern, timestamp_of(timestamp))
        self.add(replace(source, max_ahead=max_ahead_of(max_ahead)))
        return self

    @answering
    def add_processor(
        self, name: str, supplier: Callable[[], Any], *parents: str, on_error: OnError | None = None
    ) -> Self:
        """Your own processor. `supplier` is its class, or a function that creates it; each task creates its own."""
        self.add(ProcessorNode(name, parents, _processing(name, supplier)))
        return self

    @answering
    def add_sink(
        self,
        name: str,
        topic: str | Callable[..., str],
        *parents: str,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        partitioner: Partitioner | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """A sink that writes to a topic, or to the topic that a function of (key, value, context) returns."""
        if isinstance(topic, str):
            valid_name(topic, "topic")
        self.add(SinkNode(name, parents, topic, serde_of(key, key=True), serde_of(value), partitioner))
        return self

    def add_state_store(self, store: StoreSpec, *processors: str) -> Self:
        """Add a store for these processors. Returns the topology."""
        self.add_store(store)
        for processor in processors:
            self.connect(processor, store.name)
        return self

    def add_store(self, store: StoreSpec) -> StoreSpec:
        valid_name(store.name, "store")
        if store.name in self.stores:
            raise TopologyError(f'there are two stores named "{store.name}"; give one of them another name')
        self.stores[store.name] = store
        return store

    def connect(self, processor: str, *stores: str) -> None:
        """Connect an existing processor to stores."""
        node = self.nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f'"{processor}" is not a processor of this topology; only processors use stores')
        for store in stores:
            self._check_store(processor, store)
        added = tuple(store for store in stores if store not in node.stores)
        self.nodes[processor] = replace(node, stores=node.stores + added)

    @answering
    def add_global_processor(
        self,
        store: StoreSpec,
        topic: str,
        name: str,
        supplier: Callable[[], Any],
        *,
        source: str | None = None,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """A global store that your own processor fills from all partitions of a topic."""
        node = SourceNode(source or f"{name}-source", (topic,), serde_of(key, key=True), serde_of(value))
        self.add_global_store(
            replace(node, timestamp=timestamp_of(timestamp)), name, _processing(name, supplier), store
        )
        return self

    def add_global_store(self, source: SourceNode, processor: str, operator: Operator, store: StoreSpec) -> None:
        """A store that every worker keeps for all its tasks, with all partitions of the source's topics."""
        self.add_store(replace(store, logged=False, in_memory=True))
        self.add(replace(source, everywhere=True))
        self.nodes[processor] = _placed(ProcessorNode(processor, (source.name,), operator, (store.name,)))

    def add_repartition(self, repartition: Repartition) -> None:
        valid_name(repartition.topic, "topic")
        self.repartitions[repartition.topic] = repartition

    def _check_parent(self, name: str, parent: str) -> None:
        if parent not in self.nodes:
            raise TopologyError(
                f'node "{name}" names parent "{parent}", which does not exist yet; add the parent first'
            )
        if (source := self.nodes[parent]) and isinstance(source, SourceNode) and source.everywhere:
            raise TopologyError(f'node "{name}" names parent "{parent}", which feeds a global store and nothing else')
        if isinstance(self.nodes[parent], SinkNode):
            raise TopologyError(f'node "{name}" names the sink "{parent}" as its parent; sinks have no children')

    def _check_source(self, source: SourceNode) -> None:
        if not source.topics and source.pattern is None:
            raise TopologyError(f'source "{source.name}" reads no topic; give it topics or a pattern')
        for topic in source.topics:
            valid_name(topic, "topic")
            if source.topics.count(topic) > 1:
                raise TopologyError(f'source "{source.name}" names topic "{topic}" twice; name it once')
        for other in self.sources:
            twice = [topic for topic in source.topics if other.reads(topic)]
            twice += [topic for topic in other.topics if source.reads(topic) and topic not in twice]
            if twice:
                raise TopologyError(
                    f'sources "{other.name}" and "{source.name}" both read topic "{twice[0]}"; '
                    "read it once and connect both children to that source"
                )
        if source.timestamp is not None and callable(source.timestamp.take):
            check_timestamp_function(f'source "{source.name}"', source.timestamp.take)

    def _check_store(self, name: str, store: str) -> None:
        if store not in self.stores:
            raise TopologyError(f'processor "{name}" uses store "{store}", which does not exist; add the store first')
        if store in self.global_stores:
            raise TopologyError(
                f'processor "{name}" names the global store "{store}"; every processor can read it without naming it'
            )

    # -- looking

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(node for node in self.nodes.values() if isinstance(node, SourceNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        return tuple(node for node in self.nodes.values() if isinstance(node, SinkNode))

    @property
    def global_stores(self) -> frozenset[str]:
        """The names of the stores that all tasks of a worker share."""
        everywhere = {source.name for source in self.sources if source.everywhere}
        nodes = [node for node in self.nodes.values() if isinstance(node, ProcessorNode)]
        return frozenset(store for node in nodes if everywhere.intersection(node.parents) for store in node.stores)

    def children(self, name: str) -> list[str]:
        """In the order in which they were connected; a child that was connected twice comes twice."""
        return [node.name for node in self.nodes.values() for parent in node.parents if parent == name]

    def topic_of(self, name: str) -> str:
        """The name of the topic in the log: those of internal topics begin with the application id."""
        return f"{self.application_id}-{name}" if name in self.repartitions else name

    def changelog_of(self, store: str) -> str:
        return f"{self.application_id}-{store}-changelog"

    def subtopologies(self) -> tuple[Subtopology, ...]:
        """The connected parts that run as tasks. They have the same numbers as in Kafka Streams."""
        parts = tuple(part for part in self._parts() if not part.everywhere)
        if not parts:
            raise TopologyError("the topology has no source, so it would never do anything; add one")
        return parts

    def global_subtopologies(self) -> tuple[Subtopology, ...]:
        """The parts that feed global stores, numbered together with the others."""
        return tuple(part for part in self._parts() if part.everywhere)

    def _parts(self) -> list[Subtopology]:
        groups = _connected(self.nodes.values())
        first = {group: min(source.name for source in self.sources if source.name in group) for group in groups}
        return [self._subtopology(number, group) for number, group in enumerate(sorted(groups, key=first.__getitem__))]

    def _subtopology(self, number: int, group: frozenset[str]) -> Subtopology:
        nodes = tuple(node for node in self.nodes.values() if node.name in group)
        used = {store for node in nodes if isinstance(node, ProcessorNode) for store in node.stores}
        return Subtopology(number, nodes, tuple(spec for spec in self.stores.values() if spec.name in used))

    def describe(self) -> str:
        """The text that Kafka Streams prints for a topology. Tools that draw topologies read it."""
        self.subtopologies()
        return "Topologies:\n " + "".join(map(described, self._parts()))


def _processing(name: str, supplier: Callable[[], Any]) -> Operator:
    """The operator of a processor of the user's."""
    check_function(f'processor "{name}"', "supplier()", supplier)
    return Operator(
        lambda bindings: bindings.process(name, supplier, fixed_key=False),
        records=True,
        function=supplier,
        makes="key and value",
    )


def _placed(node: Node) -> Node:
    """The node, which knows now where it was made: call this when it is added."""
    function = node.operator.function if isinstance(node, ProcessorNode) else None
    return replace(node, code_place=code_place_of(function))


def _check_sink(sink: SinkNode) -> None:
    if not isinstance(sink.topic, str) and not callable(sink.topic):
        raise TopologyError(
            f'sink "{sink.name}" is given {sink.topic!r:.80} as its topic; give one name, or a function of '
            "(key, value, context) that returns one"
        )
    if callable(sink.topic):
        check_function(f'sink "{sink.name}"', "topic(key, value, context)", sink.topic)
    if sink.partitioner is not None:
        check_function(f'sink "{sink.name}"', "partitioner(topic, key, value, count)", sink.partitioner)


def _connected(nodes: Iterable[Node]) -> list[frozenset[str]]:
    group_of: dict[str, set[str]] = {}
    for node in nodes:
        links = [*node.parents, *(f"store:{store}" for store in getattr(node, "stores", ()))]
        merged = {node.name, *links}.union(*(group_of.get(link, ()) for link in links))
        group_of.update(dict.fromkeys(merged, merged))
    unique = {id(group): group for group in group_of.values()}
    return [frozenset(name for name in group if not name.startswith("store:")) for group in unique.values()]
