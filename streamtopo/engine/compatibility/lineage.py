"""What a store or an internal topic is made from, to recognize stores whose generated names only have numbers.

When two lines of a program change places, generated names change places too, and each store would continue with the
rows of the other. Two things show this: the topics a store is made from, and the functions in between. Functions are
often edited, so their signature only shows whether a store is now what another store was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

from streamtopo.topology import Topology
from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode

_NUMBER = re.compile(r"-\d{10}(?!\d)")
_PLAIN = (str, int, float, bytes)
_MOST = 1000
"""Functions may refer to tables of any size; this many parts are enough to recognize a node."""
_CONSTANTS = ("LOAD_CONST", "RETURN_CONST", "KW_NAMES", "LOAD_SMALL_INT")
"""Instructions with a constant, in different versions of Python."""


def is_numbered(name: str) -> bool:
    """Whether the name was generated, and so changes when nodes are added before it."""
    return _NUMBER.search(name) is not None


class Lineage:
    def __init__(self, topology: Topology) -> None:
        self._nodes = topology.nodes
        self._before: dict[str, frozenset[str]] = {}
        """For each node, itself and all nodes before it, also those before repartition topics."""
        writers: dict[object, frozenset[str]] = {}
        for node in topology.nodes.values():
            parents = [self._before[parent] for parent in node.parents]
            if isinstance(node, SourceNode):
                parents += [writers[topic] for topic in node.topics if topic in writers]
            self._before[node.name] = frozenset([node.name]).union(*parents)
            if isinstance(node, SinkNode) and node.topic in topology.repartitions:
                writers[node.topic] = writers.get(node.topic, frozenset()) | self._before[node.name]
        self._internal = topology.repartitions
        self._writers = writers
        self._keepers: dict[str, str] = {}
        for node in topology.nodes.values():
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                self._keepers.setdefault(store, node.name)

    def of_store(self, name: str) -> dict[str, Any]:
        return self._described(self._before[self._keepers[name]])

    def of_topic(self, name: str) -> dict[str, Any]:
        """By the name of a repartition topic in the topology."""
        return self._described(self._writers.get(name, frozenset()))

    def _described(self, names: frozenset[str]) -> dict[str, Any]:
        nodes = [node for name, node in self._nodes.items() if name in names]
        topics = {topic for node in nodes if isinstance(node, SourceNode) for topic in self._read(node)}
        text = "\n".join(f"{_NUMBER.sub('', node.name)} {' '.join(_signature(node))}" for node in nodes)
        return {"from": sorted(topics), "by": sha256(text.encode()).hexdigest()[:12]}

    def _read(self, source: SourceNode) -> list[str]:
        pattern = [] if source.pattern is None else [f"/{source.pattern.pattern}/"]
        return [topic for topic in source.topics if topic not in self._internal] + pattern


def _signature(node: Node) -> Iterator[str]:
    return _functions(node.operator.open, {}) if isinstance(node, ProcessorNode) else iter(())


def _functions(thing: Any, seen: dict[int, Any]) -> Iterator[str]:
    """Describes the functions of the user that can be reached from here, the same in all versions of Python."""
    if id(thing) in seen or len(seen) >= _MOST:
        return
    seen[id(thing)] = thing
    with suppress(Exception):  # proxy objects may raise at any access
        yield from _found(thing, seen)


def _found(thing: Any, seen: dict[int, Any]) -> Iterator[str]:
    own = not str(getattr(thing, "__module__", "")).startswith("streamtopo")
    if own and callable(thing):
        yield str(getattr(thing, "__qualname__", type(thing).__qualname__))
    if own and isinstance(thing, FunctionType):
        yield from sorted(set(_words(thing.__code__)))
    for inner in islice(_inside(thing, own=own), _MOST):
        if not isinstance(inner, _PLAIN):
            yield from _functions(inner, seen)
        else:
            yield _NUMBER.sub("", repr(inner))


def _inside(thing: Any, *, own: bool) -> Iterable[Any]:
    """Its closure, or its parts."""
    match thing:
        case FunctionType():
            return [*_enclosed(thing), *(thing.__defaults__ or ())]
        case partial():
            return [thing.func, *thing.args, *thing.keywords.values()]
        case MethodType():
            return [thing.__func__]
        case tuple() | list():
            return thing
        case dict():
            return thing.values()
        case _ if is_dataclass(thing) and not own:
            return [getattr(thing, field.name) for field in fields(thing) if hasattr(thing, field.name)]
    return ()


def _enclosed(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is still empty
            yield cell.cell_contents


def _words(code: CodeType) -> Iterator[str]:
    """The names and the plain values in a function, and in its inner functions."""
    from dis import get_instructions  # only where there are names with numbers

    yield from (name for name in (*code.co_names, *code.co_varnames) if name.isidentifier())
    for instruction in get_instructions(code):
        if instruction.opname in _CONSTANTS and isinstance(instruction.argval, _PLAIN):
            yield repr(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _words(inner)
