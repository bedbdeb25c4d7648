"""What a store or an internal topic is made from: tells those apart whose generated names only have numbers.

When two lines of a program change places, generated names change places too, and each store would go on from the
other's rows. Two things tell: the topics it is made from, and the functions on the way from there. Functions are
edited all the time, so a signature of them shows no more than that one store is now what another one was.
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

from streamtopo.topology import Node, ProcessorNode, SinkNode, SourceNode, Topology

_NUMBER = re.compile(r"-\d{10}(?!\d)")
_PLAIN = (str, int, float, bytes)
_MOST = 1000
"""Functions may have tables of any size around them; this much of what a node has tells it from others."""
_CONSTANTS = ("LOAD_CONST", "RETURN_CONST", "KW_NAMES", "LOAD_SMALL_INT")
"""Instructions that bring a value, in one version of Python or another."""


def is_numbered(name: str) -> bool:
    """Whether the name was generated, and so changes when nodes are added before it."""
    return _NUMBER.search(name) is not None


class Lineage:
    def __init__(self, topology: Topology) -> None:
        self._nodes = topology.nodes
        self._before: dict[str, frozenset[str]] = {}
        """Of each node all nodes before it, itself included, also those on the other side of repartition topics."""
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
    """What can be said about the user's functions that are reached from here, alike in all versions of Python."""
    if id(thing) in seen or len(seen) >= _MOST:
        return
    seen[id(thing)] = thing
    with suppress(Exception):  # objects that stand for others may fail at any question
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
    """What it has around it, or is made of."""
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
        with suppress(ValueError):  # it is empty so far
            yield cell.cell_contents


def _words(code: CodeType) -> Iterator[str]:
    """The names and the plain values in a function, also in the functions inside of it."""
    from dis import get_instructions  # only where there are names with numbers

    yield from (name for name in (*code.co_names, *code.co_varnames) if name.isidentifier())
    for instruction in get_instructions(code):
        if instruction.opname in _CONSTANTS and isinstance(instruction.argval, _PLAIN):
            yield repr(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _words(inner)
