"""Build topologies from their description in a case: the DSL's steps, a low-level graph, or one store alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamtopo import (
    GlobalKTable,
    KGroupedStream,
    KStream,
    KTable,
    StreamsBuilder,
    Timestamp,
    Topology,
    key_value_store,
    retaining_duplicates,
    session_store,
    versioned_store,
    window_store,
)
from streamtopo.stores import StoreSpec
from streamtopo.timestamps import Times
from tests.conformance import tables
from tests.conformance.functions import Function, function, s
from tests.conformance.processors import spec_of, supplier
from tests.conformance.unsupported import Unsupported
from tests.conformance.values import ANY
from tests.conformance.windowed import cogroup, kept, suppress, windowed_by

Step = dict[str, Any]
APPLICATION = "conformance"


@dataclass
class Built:
    """A case's topology, and where its outputs are: in topics, or recorded by a `peek`."""

    topology: Topology
    captured: set[str] = field(default_factory=set)
    """Topics whose rows are compared, including those where the case expects none."""
    peeked: set[str] = field(default_factory=set)
    seen: list[tuple[str, Any, Any]] = field(default_factory=list)
    """What peek and foreach recorded: the topic to compare with, key and value."""


def build(params: dict[str, Any]) -> Built:
    if "nodes" in params:
        return _from_nodes(params["nodes"])
    if "store" in params:
        return _from_store(params["store"])
    return Steps().build(params["steps"])


class Steps:
    """Apply steps one after the other; each result is stored under its step's id."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder(APPLICATION)
        self.results: dict[str, Any] = {}
        self.seen: list[tuple[str, Any, Any]] = []
        self.captured: set[str] = set()
        self.only_captured: set[str] = set()
        self.peeked: set[str] = set()
        self._last: str | None = None

    def build(self, steps: list[Step]) -> Built:
        for step in steps:
            self._apply(step)
        topology = self.builder.build()
        for source in topology.sources:
            assert not self.only_captured & set(source.topics), "captured rows are written, and would be read again"
        return Built(topology, self.captured, self.peeked, self.seen)

    def _apply(self, step: Step) -> None:
        last = step.get("from", self._last)
        before = None if last is None else self.results[last]
        operator = tables.OPERATORS.get(type(before), {}).get(step["op"]) or OPERATORS.get(step["op"])
        if operator is None:
            raise Unsupported(step["op"])
        result = operator(self, before, step)
        if result is not None:
            self._last = step.get("id", f"_{len(self.results)}")
            self.results[self._last] = result


# -- sources


def _stream(steps: Steps, _: Any, step: Step) -> KStream:
    topics = [re.compile(step["pattern"])] if "pattern" in step else step.get("topics") or [step["topic"]]
    return steps.builder.stream(*topics, key=ANY, value=ANY, timestamp=_extractor(step.get("timestamp_extractor")))


def _extractor(name: str | None) -> Timestamp | None:
    takes: dict[str | None, Timestamp] = {
        "value": Timestamp(_integer),
        "value_or_partition_time": Timestamp(
            lambda key, value, times: times.partition if type(value) is not int else value
        ),
        "value_after_at": Timestamp(_after_at),
    }
    if name is not None and name not in takes:
        raise Unsupported(f"timestamp_extractor {name}")
    return takes.get(name)


def _after_at(_: Any, value: Any, times: Times) -> int:
    found = re.fullmatch(".*@([0-9]+)", s(value))
    return int(found[1]) if found else times.log


def _integer(key: Any, value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _table(steps: Steps, _: Any, step: Step) -> KTable:
    history = step["history_retention_ms"] if step.get("store_type") == "versioned" else None
    return steps.builder.table(step["topic"], key=ANY, value=ANY, versioned=history, name=step.get("store"))


# -- record by record


def _on_streams(operator: Callable[[KStream, Step], Any]) -> Callable[[Steps, Any, Step], Any]:
    """Wrap operators that only streams have."""

    def apply(_: Steps, stream: Any, step: Step) -> Any:
        if not isinstance(stream, KStream):
            raise Unsupported(f"{type(stream).__name__}.{step['op']}")
        return operator(stream, step)

    return apply


def _filter(stream: KStream, step: Step) -> KStream:
    return stream.filter(function(step["fn"]))


def _filter_not(stream: KStream, step: Step) -> KStream:
    return stream.filter_not(function(step["fn"]))


def _map(stream: KStream, step: Step) -> KStream:
    return stream.map(function(step["fn"]), key=ANY, value=ANY)


def _map_values(stream: KStream, step: Step) -> KStream:
    return stream.map_values(function(step["fn"]), with_key=True, value=ANY)


def _flat_map(stream: KStream, step: Step) -> KStream:
    return stream.flat_map(function(step["fn"]), key=ANY, value=ANY)


def _flat_map_values(stream: KStream, step: Step) -> KStream:
    return stream.flat_map_values(function(step["fn"]), with_key=True, value=ANY)


def _select_key(stream: KStream, step: Step) -> KStream:
    return stream.select_key(function(step["fn"]), key=ANY)


def _peek(steps: Steps, stream: KStream, step: Step) -> KStream:
    return stream.peek(_recording(steps, step["capture"]))


def _foreach(steps: Steps, stream: KStream, step: Step) -> None:
    stream.for_each(_recording(steps, step["capture"]))


def _recording(steps: Steps, topic: str) -> Function:
    steps.peeked.add(topic)
    return lambda key, value: steps.seen.append((topic, key, value))


def _merge(steps: Steps, stream: KStream, step: Step) -> KStream:
    return stream.merge(steps.results[step["other"]])


def _split(steps: Steps, stream: KStream, step: Step) -> None:
    branches = {branch["id"]: function(branch["fn"]) for branch in step["branches"]}
    steps.results.update(stream.split(branches, default=step.get("default") or False))


def _repartition(stream: KStream, step: Step) -> KStream:
    """Ignore `partitions`: all topics have one partition, as in Kafka Streams' test driver."""
    return stream.repartition(name=step.get("name"))


def _to(steps: Steps, stream: KStream, step: Step) -> None:
    """Write captured rows too, and read them back from the topic."""
    if "topic_fn" in step:
        stream.to(lambda key, value, context: f"{context.metadata and context.metadata.topic}-{s(key)}-{s(value)[0]}")
        return
    if step.get("capture", True):
        steps.captured.add(step["topic"])
        steps.only_captured.update([] if step.get("produce") else [step["topic"]])
    stream.to(step["topic"])


def _process(stream: KStream, step: Step) -> KStream:
    spec = spec_of(step["processor"])
    return stream.process(supplier(spec), key=ANY, value=ANY, stores=_stores(spec))


def _process_values(stream: KStream, step: Step) -> KStream:
    spec = spec_of(step["processor"])
    return stream.process_values(supplier(spec), value=ANY, stores=_stores(spec))


def _stores(spec: Step) -> list[str]:
    return [spec["store"]] if "store" in spec else []


# -- tables and groups


def _to_table(stream: KStream, step: Step) -> KTable:
    return stream.to_table(store=step.get("store"))


def _group_by_key(stream: KStream, step: Step) -> KGroupedStream:
    return stream.group_by_key(name=step.get("name"))


def _group_by(stream: KStream, step: Step) -> KGroupedStream:
    return stream.group_by(function(step["fn"]), key=ANY, name=step.get("name"))


def _count(_: Steps, grouped: KGroupedStream, step: Step) -> KTable:
    return grouped.count(**kept(step))


def _reduce(_: Steps, grouped: KGroupedStream, step: Step) -> KTable:
    return grouped.reduce(function(step["fn"]), **kept(step))


def _aggregate(_: Steps, grouped: KGroupedStream, step: Step) -> KTable:
    functions = [_keyed(function(step["fn"]))] if "fn" in step else []
    if "merger" in step:
        merge = function(step["merger"])
        functions.append(lambda key, one, other: merge(one, other))
    return grouped.aggregate(lambda: step["init"], *functions, value=ANY, **kept(step))


def _keyed(add: Function) -> Function:
    return lambda key, value, row: add(row, value)


# -- joins of streams


def _join_streams(steps: Steps, stream: KStream, step: Step) -> KStream:
    window = {"before": step["before_ms"], "after": step["after_ms"], "grace": step["grace_ms"]}
    other, joiner = steps.results[step["other"]], function(step["joiner"])
    store = step.get("store_name")
    if step["kind"] == "outer":
        return stream.outer_join(other, joiner, **window, store=store)
    join = stream.join if step["kind"] == "inner" else stream.left_join
    return join(other, joiner, **window, store=store)


def _join_stream_table(steps: Steps, stream: KStream, step: Step) -> KStream:
    join = stream.join if step["kind"] == "inner" else stream.left_join
    table, joiner, name = steps.results[step["table"]], function(step["joiner"]), step.get("name")
    if "grace_ms" in step:
        return join(table, joiner, name=name, grace=step["grace_ms"])
    return join(table, joiner, name=name)


def _global_table(steps: Steps, _: Any, step: Step) -> GlobalKTable:
    return steps.builder.global_table(step["topic"], key=ANY, value=ANY, name=step.get("store"))


def _join_stream_global(steps: Steps, stream: KStream, step: Step) -> KStream:
    join = stream.join if step["kind"] == "inner" else stream.left_join
    return join(steps.results[step["table"]], function(step["key_fn"]), function(step["joiner"]))


OPERATORS: dict[str, Callable[[Steps, Any, Step], Any]] = {
    "stream": _stream,
    "table": _table,
    "filter": _on_streams(_filter),
    "filter_not": _on_streams(_filter_not),
    "map": _on_streams(_map),
    "map_values": _on_streams(_map_values),
    "flat_map": _on_streams(_flat_map),
    "flat_map_values": _on_streams(_flat_map_values),
    "select_key": _on_streams(_select_key),
    "peek": _peek,
    "foreach": _foreach,
    "merge": _merge,
    "split": _split,
    "repartition": _on_streams(_repartition),
    "to": _to,
    "process": _on_streams(_process),
    "process_values": _on_streams(_process_values),
    "to_table": _on_streams(_to_table),
    "group_by_key": _on_streams(_group_by_key),
    "group_by": _on_streams(_group_by),
    "cogroup": cogroup,
    "windowed_by": windowed_by,
    "suppress": suppress,
    "count": _count,
    "reduce": _reduce,
    "aggregate": _aggregate,
    "join_streams": _join_streams,
    "join_stream_table": _join_stream_table,
    "global_table": _global_table,
    "join_stream_global": _join_stream_global,
}


# -- low-level graphs


def _from_nodes(nodes: list[Step]) -> Built:
    topology = Topology(APPLICATION)
    for node in nodes:
        if node["node"] not in NODES:
            raise Unsupported(node["node"])
        NODES[node["node"]](topology, node)
    read = {topic for source in topology.sources for topic in source.topics}
    return Built(topology, {node["topic"] for node in nodes if node["node"] == "sink"} - read)


def _source_node(topology: Topology, node: Step) -> None:
    topology.add_source(node["name"], *node["topics"], key=ANY, value=ANY)


def _processor_node(topology: Topology, node: Step) -> None:
    topology.add_processor(node["name"], supplier(spec_of(node["processor"])), *node["parents"])


def _sink_node(topology: Topology, node: Step) -> None:
    topology.add_sink(node["name"], node["topic"], *node["parents"], key=ANY, value=ANY)


def _store_node(topology: Topology, node: Step) -> None:
    topology.add_state_store(_store(node["store"]), *node["processors"])


def _global_store_node(topology: Topology, node: Step) -> None:
    puts = {"name": "put_into_store", "store": node["store"]["name"]}
    topology.add_global_processor(
        _store(node["store"]), node["topic"], node["name"], supplier(puts), key=ANY, value=ANY
    )


NODES: dict[str, Callable[[Topology, Step], None]] = {
    "source": _source_node,
    "processor": _processor_node,
    "sink": _sink_node,
    "store": _store_node,
    "global_store": _global_store_node,
}


def _from_store(store: Step) -> Built:
    """Add a source that gets no records: a store needs a task."""
    topology = Topology(APPLICATION)
    topology.add_source("source", "nothing", key=ANY, value=ANY)
    topology.add_processor("processor", supplier({"name": "swallow"}), "source")
    topology.add_state_store(_store(store), "processor")
    return Built(topology)


def _store(store: Step) -> StoreSpec:
    name, in_memory = store["name"], store.get("in_memory", False)
    match store["type"]:
        case "key_value":
            return key_value_store(name, key=ANY, value=ANY, in_memory=in_memory)
        case "window":
            windows = window_store(
                name,
                window_size=store["window_size_ms"],
                retention=store["retention_ms"],
                key=ANY,
                value=ANY,
                in_memory=in_memory,
            )
            return retaining_duplicates(windows) if store.get("retain_duplicates") else windows
        case "session":
            return session_store(name, retention=store["retention_ms"], key=ANY, value=ANY, in_memory=in_memory)
        case "versioned":
            return versioned_store(name, key=ANY, value=ANY, history=store["history_retention_ms"])
    raise Unsupported(f"{store['type']} store")
