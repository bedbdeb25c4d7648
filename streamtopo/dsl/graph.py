"""The graph that the DSL builds. Names of nodes and stores are numbered exactly as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from streamtopo.errors import TopologyError
from streamtopo.operators.stateless import each
from streamtopo.operators.tables.conversions import passing
from streamtopo.records import ChunkFunction
from streamtopo.serdes import Serde, SerdeLike, serde_of
from streamtopo.steps import StepLike
from streamtopo.stores import StoreSpec
from streamtopo.topology import Topology
from streamtopo.topology.names import valid_name
from streamtopo.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamtopo.topology.operator import Bindings, Operator

_MAKES = {
    "KSTREAM-FILTER-": "",
    "KSTREAM-FLATMAP-": "key and value",
    "KSTREAM-KEY-SELECT-": "key",
    "KSTREAM-MAP-": "key and value",
    "KSTREAM-PEEK-": "",
}
"""What functions return, if it is not the value: `Operator.makes` by the first part of generated names."""
_FORWARDS_ALL = {"KSTREAM-KEY-SELECT-", "KSTREAM-MAP-", "KSTREAM-MAPVALUES-", "KSTREAM-PEEK-"}


class ClosingTime(NamedTuple):
    after_end: int
    """How many milliseconds after its end a window closes."""
    clocks: tuple[str, ...]
    """The names of the clocks that have its stream time."""


class Graph:
    """The topology being built, shared by all streams and tables of one builder."""

    def __init__(self, application_id: str) -> None:
        self.topology = Topology(application_id)
        self.null_keys: set[str] = set()
        """Nodes that need rows without a key."""
        self.repartitioned: dict[str, Any] = {}
        """Streams repartitioned for a join, without a name given by the user, by node: other joins share them."""
        self._count = 0
        self.closing: dict[str, ClosingTime] = {}
        """When windows close, by the nodes that aggregate in windows."""

    def name(self, prefix: str, given: str | None = None) -> str:
        """The given name, or a numbered one. The counter is increased in both cases."""
        numbered = f"{prefix}{self._count:010d}"
        self._count += 1
        return numbered if given is None else valid_name(given, "node")

    def store_name(self, prefix: str, given: str | None = None) -> str:
        """Like `name`, but a given name does not increase the counter."""
        return self.name(prefix) if given is None else valid_name(given, "store")

    def process(
        self,
        name: str,
        parents: tuple[str, ...],
        operator: Operator,
        stores: tuple[str, ...] = (),
        watches: tuple[str, ...] = (),
        uses: tuple[str, ...] = (),
        *,
        as_forwarded: bool = False,
    ) -> str:
        self.topology.add(ProcessorNode(name, parents, operator, stores, watches, as_forwarded, uses))
        return name

    def use_stores(self, node: str, stores: Iterable[str | StoreSpec]) -> tuple[str, ...]:
        """The names of the stores that a user-defined node uses. Stores given by description are added."""
        if isinstance(stores, str):
            raise TopologyError(
                f'stores={stores!r} of "{node}" is a name, not a list of them; give stores=["{stores}"]'
            )
        stores = tuple(stores)
        for store in stores:
            if isinstance(store, StoreSpec) and self.topology.stores.get(store.name) != store:
                self.topology.add_store(store)
        return tuple(store.name if isinstance(store, StoreSpec) else store for store in stores)

    def repartition_filter(self, name: str, parent: str) -> None:
        """Before a repartition topic: drop rows without a key, unless a join after it needs them."""

        def open_step(bindings: Bindings) -> StepLike:
            return each if self._wants_null_keys(name) else passing(bindings.count)

        self.process(name, (parent,), Operator(open_step, stateless=True))

    def _wants_null_keys(self, name: str) -> bool:
        """Whether there is a left or outer join after a node, also across internal topics."""
        reached = {name}
        for node in self.topology.nodes.values():
            topics = node.topics if isinstance(node, SourceNode) else ()
            if reached.intersection((*node.parents, *(f"topic {topic}" for topic in topics))):
                reached.add(node.name)
                if isinstance(node, SinkNode):
                    reached.add(f"topic {node.topic}" if node.topic in self.topology.repartitions else node.name)
        return not self.null_keys.isdisjoint(reached)


def stateless_operator(prefix: str, step: ChunkFunction, function: object) -> Operator:
    """The operator of a node whose generated name begins with the prefix."""
    makes, forwards_all = _MAKES.get(prefix, "value"), prefix in _FORWARDS_ALL
    return Operator(lambda _: step, stateless=True, function=function, makes=makes, forwards_all=forwards_all)


def shown(one: Any) -> str:
    """A stream or table for people: its class with the types, its node, and the line that made it."""
    graph, node = one.graph, one.node
    place = graph.topology.nodes[node].code_place if node in graph.topology.nodes else None
    made = f", {place}" if place else ""
    return f"{type(one).__name__}[{one.key.shown}, {one.value.shown}]({node} of {graph.topology.application_id}{made})"


def next_serde(given: SerdeLike | None, before: Serde, *, key: bool = False) -> Serde:
    """The given serde, or the one before: a declared type is valid until another one is declared."""
    return before if given is None else serde_of(given, key=key)
