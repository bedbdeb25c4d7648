"""A topology as JSON, for programs.

    {"application_id": text,
     "subtopologies": [
       {"number": n,
        "sources": [{"name", "topics": [text], "pattern": text | null, "key", "value",
                     "children": [name], "code_place": text | null}],
        "processors": [{"name", "parents": [name], "children": [name], "stores": [name],
                        "code_place": text | null}],
        "sinks": [{"name", "topic": text | null, "topic_function": text | null, "key", "value",
                   "parents": [name], "code_place": text | null}],
        "stores": [name]}],
     "stores": [{"name", "kind", "key", "value", "logged", "changelog": text | null, "processors": [name]}],
     "internal_topics": [{"name", "topic", "purpose": "repartition" | "changelog", "partitions": n | null}]}

A store's `changelog` and an internal topic's `topic` are names in the log, after the application id.
`key` and `value` name serdes. Lists are sorted by name; a parent that is connected twice is listed twice.
`code_place` is where the user's program makes a node, such as "to_cents, orders.py:31".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from streamtopo.drawing.graph import all_parts, function_name
from streamtopo.stores import StoreSpec
from streamtopo.topology import Topology
from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode, Subtopology


def as_json(topology: Topology) -> str:
    return orjson.dumps(document(topology), option=orjson.OPT_INDENT_2).decode() + "\n"


def document(topology: Topology) -> dict[str, Any]:
    return {
        "application_id": topology.application_id,
        "subtopologies": [_subtopology(topology, part) for part in all_parts(topology)],
        "stores": [_store(topology, spec) for _, spec in sorted(topology.stores.items())],
        "internal_topics": _internal_topics(topology),
    }


def _subtopology(topology: Topology, part: Subtopology) -> dict[str, Any]:
    nodes = sorted(part.nodes, key=lambda node: node.name)
    return {
        "number": part.number,
        "sources": [_source(topology, node) for node in nodes if isinstance(node, SourceNode)],
        "processors": [_processor(topology, node) for node in nodes if isinstance(node, ProcessorNode)],
        "sinks": [_sink(node) for node in nodes if isinstance(node, SinkNode)],
        "stores": sorted(spec.name for spec in part.stores),
    }


def _source(topology: Topology, node: SourceNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "topics": sorted(node.topics),
        "pattern": node.pattern and node.pattern.pattern,
        "key": node.key.name,
        "value": node.value.name,
        "children": sorted(topology.children(node.name)),
        "code_place": _code_place(node),
    }


def _processor(topology: Topology, node: ProcessorNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "parents": sorted(node.parents),
        "children": sorted(topology.children(node.name)),
        "stores": sorted(node.stores),
        "code_place": _code_place(node),
    }


def _sink(node: SinkNode) -> dict[str, Any]:
    named = isinstance(node.topic, str)
    return {
        "name": node.name,
        "topic": node.topic if named else None,
        "topic_function": None if named else function_name(node.topic),
        "key": node.key.name,
        "value": node.value.name,
        "parents": sorted(node.parents),
        "code_place": _code_place(node),
    }


def _code_place(node: Node) -> str | None:
    return node.code_place and str(node.code_place)


def _store(topology: Topology, spec: StoreSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "key": spec.key.name,
        "value": spec.value.name,
        "logged": spec.logged,
        "changelog": topology.changelog_of(spec.name) if spec.logged else None,
        "processors": _users(topology.nodes.values(), spec.name),
    }


def _users(nodes: Iterable[Node], store: str) -> list[str]:
    return sorted(node.name for node in nodes if isinstance(node, ProcessorNode) and store in node.stores)


def _internal_topics(topology: Topology) -> list[dict[str, Any]]:
    repartitions: list[tuple[str, str, str, int | None]] = [
        (name, topology.topic_of(name), "repartition", repartition.partitions)
        for name, repartition in topology.repartitions.items()
    ]
    changelogs: list[tuple[str, str, str, int | None]] = [
        (f"{name}-changelog", topology.changelog_of(name), "changelog", None)
        for name, spec in topology.stores.items()
        if spec.logged
    ]
    fields = ("name", "topic", "purpose", "partitions")
    return [dict(zip(fields, row, strict=True)) for row in sorted(repartitions + changelogs, key=lambda row: row[:2])]
