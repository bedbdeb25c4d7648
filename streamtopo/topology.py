"""The described topology: an append-only graph of sources, processors, sinks and stores. Data; it runs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self, TypeVar

from streamtopo.errors import TopologyError
from streamtopo.names import names_or_pattern as names_or_pattern
from streamtopo.records import Step
from streamtopo.serdes import Serde, SerdeLike, serde_of
from streamtopo.stores import StoreSpec
from streamtopo.timestamps import MaxAhead, MaxAheadLike, Timestamp, TimestampLike, max_ahead_of, timestamp_of

T = TypeVar("T")
Partitioner = Callable[[str, Any, Any, int], int | None]
"""(topic, key, value, number of partitions) -> a partition, or None for the usual one."""


class OperatorClock(Protocol):
    time: int
    """Milliseconds; -1 until it is set."""

    @property
    def limited(self) -> bool:
        """Whether there are times that it does not follow."""
        ...

    def observe(self, time: int) -> int:
        """Follow a row's time, unless that is too far ahead of the wall clock; returns the clock's time."""
        ...

    def follow(self, times: list[int]) -> list[int]:
        """The same for rows that come one after the other: the clock's time at each, that row included."""
        ...


class Bindings(Protocol):
    """What a task offers the operators it opens; the engine implements it (`engine/task.py`)."""

    application_id: str
    partition: int
    """The task's: that of the records its sources read."""

    def state(self, name: str) -> Any:
        """The rows of a store in this task."""
        ...

    def clock(self, name: str) -> OperatorClock:
        """A time that an operator keeps; it is committed, restored and rolled back with the task."""
        ...

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """An object that several steps of the task use, made by the first of them; after a rollback it is a new one."""
        ...

    def count(self, counter: str, rows: int = 1) -> None:
        """Count rows that an operator dropped, by the reason's name."""
        ...

    def await_all(self, function: Callable[..., Any], columns: list[list[Any]], patience: Any) -> list[Any]:
        """Wait for a coroutine for each row (see `operators/awaited.py`)."""
        ...

    def process(self, node: str, supplier: Callable[[], Any], fixed_key: bool) -> Step:
        """A step that runs the user's own processor."""
        ...


@dataclass(frozen=True)
class Operator:
    """How a processor node works: `open` gives a task its own step, made anew after a rollback."""

    open: Callable[[Bindings], Step]
    records: bool = False
    """True for the user's own processors: one record at a time, with offsets and times to ask for."""
    at_once: int | None = None
    """The most records that a round may have, where each may take long; None: as many as there are."""


@dataclass(frozen=True)
class SourceNode:
    name: str
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    pattern: re.Pattern[str] | None = None
    timestamp: Timestamp | None = None
    parents: tuple[str, ...] = ()
    everywhere: bool = False
    """Every worker reads all partitions, into a store that all its tasks can look into."""
    raw: bool = False
    """Hands on keys and values as their bytes, to a node that expects them so."""
    max_ahead: MaxAhead | Literal["default"] | None = "default"
    """Of its records' times; "default": as the worker has it."""

    def reads(self, topic: str) -> bool:
        return topic in self.topics or self.matches(topic)

    def matches(self, topic: str) -> bool:
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None


@dataclass(frozen=True)
class ProcessorNode:
    name: str
    parents: tuple[str, ...]
    operator: Operator
    stores: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    """Nodes that keep tables this one reads: it is told of each row they put, in its order among its own."""
    as_forwarded: bool = False
    """Of rows that wait in a cache it is told when they are forwarded, not when they are put."""
    uses: tuple[str, ...] = ()
    """Stores with which its parents are described, and on which it works in their stead."""


@dataclass(frozen=True)
class SinkNode:
    name: str
    parents: tuple[str, ...]
    topic: str | Callable[..., str]
    key: Serde
    value: Serde
    partitioner: Partitioner | None = None


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True)
class Repartition:
    """An internal topic between two subtopologies; without a count it takes its readers' or its writers'."""

    topic: str
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.partitions is not None and (not isinstance(self.partitions, int) or self.partitions < 1):
            raise TopologyError(f'"{self.topic}" is to have {self.partitions!r} partitions; give 1 or more')


@dataclass(frozen=True)
class Subtopology:
    """Nodes that are connected, by edges or by a store; it runs as one task per partition."""

    number: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    @property
    def everywhere(self) -> bool:
        """It feeds a global store: every worker runs it once, over all partitions."""
        return any(source.everywhere for source in self.sources)


_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def valid_name(name: str, what: str) -> str:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f'{what} "{name}" is not a legal name; use 1 to 249 of a-z A-Z 0-9 . _ -')
    return name


class Topology:
    """Nodes in the order they were added: parents first, so this order is topological and no cycle can be written."""

    def __init__(self, application_id: str = "app") -> None:
        self.application_id = valid_name(application_id, "application id")
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.repartitions: dict[str, Repartition] = {}

    # -- building

    def add(self, node: Node) -> Node:
        valid_name(node.name, "node")
        if node.name in self.nodes:
            raise TopologyError(f'there are two nodes named "{node.name}"; give one of them another name')
        if not isinstance(node, SourceNode) and not node.parents:
            raise TopologyError(f'node "{node.name}" has no parent, so nothing would reach it; name one')
        for parent in node.parents:
            self._check_parent(node.name, parent)
        if isinstance(node, SourceNode):
            self._check_source(node)
        if isinstance(node, ProcessorNode):
            for store in node.stores:
                self._check_store(node.name, store)
        self.nodes[node.name] = node
        return node

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
    ) -> Self:
        """A source of one or more topics, or of all topics whose whole name matches a pattern."""
        names, pattern = names_or_pattern(name, topics)
        source = SourceNode(name, names, serde_of(key, key=True), serde_of(value), pattern, timestamp_of(timestamp))
        self.add(replace(source, max_ahead=max_ahead_of(max_ahead)))
        return self

    def add_processor(self, name: str, supplier: Callable[[], Any], *parents: str) -> Self:
        """A processor of the user's; the supplier (a class, usually) makes a new one for each task."""
        operator = Operator(lambda bindings: bindings.process(name, supplier, fixed_key=False), records=True)
        self.add(ProcessorNode(name, parents, operator))
        return self

    def add_sink(
        self,
        name: str,
        topic: str | Callable[..., str],
        *parents: str,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        partitioner: Partitioner | None = None,
    ) -> Self:
        """A sink into a topic, or into the topic that a function of (key, value, context) names per record."""
        if isinstance(topic, str):
            valid_name(topic, "topic")
        self.add(SinkNode(name, parents, topic, serde_of(key, key=True), serde_of(value), partitioner))
        return self

    def add_state_store(self, store: StoreSpec, *processors: str) -> Self:
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
        """Give a processor that is already there access to stores."""
        node = self.nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f'"{processor}" is not a processor of this topology; only processors use stores')
        for store in stores:
            self._check_store(processor, store)
        added = tuple(store for store in stores if store not in node.stores)
        self.nodes[processor] = replace(node, stores=node.stores + added)

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
    ) -> Self:
        """A global store kept by a processor of the user's, from all partitions of a topic."""
        node = SourceNode(source or f"{name}-source", (topic,), serde_of(key, key=True), serde_of(value))
        operator = Operator(lambda bindings: bindings.process(name, supplier, fixed_key=False), records=True)
        self.add_global_store(replace(node, timestamp=timestamp_of(timestamp)), name, operator, store)
        return self

    def add_global_store(self, source: SourceNode, processor: str, operator: Operator, store: StoreSpec) -> None:
        """A store that every worker keeps for all its tasks, from all partitions of the source's topics."""
        self.add_store(replace(store, logged=False, in_memory=True))
        self.add(replace(source, everywhere=True))
        self.nodes[processor] = ProcessorNode(processor, (source.name,), operator, (store.name,))

    def add_repartition(self, repartition: Repartition) -> None:
        valid_name(repartition.topic, "topic")
        self.repartitions[repartition.topic] = repartition

    def _check_parent(self, name: str, parent: str) -> None:
        if parent not in self.nodes:
            raise TopologyError(f'node "{name}" names parent "{parent}", which is not there yet; add the parent first')
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

    def _check_store(self, name: str, store: str) -> None:
        if store not in self.stores:
            raise TopologyError(f'processor "{name}" uses store "{store}", which is not there; add the store first')
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
        """The names of those that are not a task's own."""
        everywhere = {source.name for source in self.sources if source.everywhere}
        nodes = [node for node in self.nodes.values() if isinstance(node, ProcessorNode)]
        return frozenset(store for node in nodes if everywhere.intersection(node.parents) for store in node.stores)

    def children(self, name: str) -> list[str]:
        """In the order they were connected; a child connected twice is there twice."""
        return [node.name for node in self.nodes.values() for parent in node.parents if parent == name]

    def topic_of(self, name: str) -> str:
        """The topic as the log knows it: internal topics carry the application id."""
        return f"{self.application_id}-{name}" if name in self.repartitions else name

    def changelog_of(self, store: str) -> str:
        return f"{self.application_id}-{store}-changelog"

    def subtopologies(self) -> tuple[Subtopology, ...]:
        """Connected parts that run as tasks, numbered by the names of their sources (as Kafka Streams numbers them)."""
        parts = tuple(part for part in self._parts() if not part.everywhere)
        if not parts:
            raise TopologyError("the topology has no source, so it would never do anything; add one")
        return parts

    def global_subtopologies(self) -> tuple[Subtopology, ...]:
        """The parts that feed global stores, numbered among the others."""
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
        """The text that Kafka Streams prints for a topology; viewers of that form read it."""
        self.subtopologies()
        return "Topologies:\n " + "".join(map(_described, self._parts()))


def _connected(nodes: Iterable[Node]) -> list[frozenset[str]]:
    group_of: dict[str, set[str]] = {}
    for node in nodes:
        links = [*node.parents, *(f"store:{store}" for store in getattr(node, "stores", ()))]
        merged = {node.name, *links}.union(*(group_of.get(link, ()) for link in links))
        group_of.update(dict.fromkeys(merged, merged))
    unique = {id(group): group for group in group_of.values()}
    return [frozenset(name for name in group if not name.startswith("store:")) for group in unique.values()]


def sizes(subtopology: Subtopology) -> dict[str, int]:
    """For each node, how many paths of any length start there; the order in which descriptions list nodes."""
    size = {node.name: 1 for node in subtopology.nodes}
    for node in reversed(subtopology.nodes):
        for parent in node.parents:
            size[parent] += size[node.name]
    return size


def _described(subtopology: Subtopology) -> str:
    size = sizes(subtopology)
    what = " for global store (will not generate tasks)" if subtopology.everywhere else ""
    lines = [f"  Sub-topology: {subtopology.number}{what}"]
    for node in sorted(subtopology.nodes, key=lambda node: (-size[node.name], node.name)):
        children = sorted({child.name for child in subtopology.nodes if node.name in child.parents})
        lines.extend(_describe_node(node, children))
    return "\n".join(lines) + ("\n" if subtopology.everywhere else "\n\n")


def _describe_node(node: Node, children: list[str]) -> Iterator[str]:
    match node:
        case SourceNode(topics=topics, pattern=pattern):
            read = pattern.pattern if pattern else f"[{', '.join(sorted(topics))}]"
            yield f"    Source: {node.name} (topics: {read})"
        case ProcessorNode(stores=stores):
            yield f"    Processor: {node.name} (stores: [{', '.join(sorted(stores))}])"
        case SinkNode(topic=topic):
            chosen = f"extractor class: {getattr(topic, '__qualname__', type(topic).__qualname__)}"
            yield f"    Sink: {node.name} (topic: {topic if isinstance(topic, str) else chosen})"
    if not isinstance(node, SinkNode):
        yield f"      --> {', '.join(children) or 'none'}"
    if node.parents:
        yield f"      <-- {', '.join(sorted(set(node.parents)))}"
