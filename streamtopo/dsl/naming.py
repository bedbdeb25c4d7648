"""Names of nodes and stores, numbered in call order exactly as Kafka Streams numbers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from streamtopo.errors import TopologyError
from streamtopo.operators.stateless import each
from streamtopo.operators.tables import passing
from streamtopo.records import Step
from streamtopo.serdes import Serde, SerdeLike, serde_of
from streamtopo.stores import StoreSpec
from streamtopo.topology import Bindings, Operator, ProcessorNode, SinkNode, SourceNode, Topology, valid_name


class ClosingTime(NamedTuple):
    after_end: int
    """Milliseconds from a window's end on."""
    clocks: tuple[str, ...]
    """The names of those that have its stream time."""


class Graph:
    """A topology being built by the DSL; streams and tables of one builder share it."""

    def __init__(self, application_id: str) -> None:
        self.topology = Topology(application_id)
        self.null_keys: set[str] = set()
        """Nodes that have a use for rows without a key."""
        self.repartitioned: dict[str, Any] = {}
        """Nodes whose streams were repartitioned for a join, under no name of the user's: other joins share that."""
        self._count = 0
        self.closing: dict[str, ClosingTime] = {}
        """Nodes with windowed rows: when their windows close."""

    def name(self, prefix: str, given: str | None = None) -> str:
        """The given name or a numbered one; the count goes on in either case."""
        numbered = f"{prefix}{self._count:010d}"
        self._count += 1
        return numbered if given is None else valid_name(given, "node")

    def store_name(self, prefix: str, given: str | None = None) -> str:
        """A named store takes no number."""
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
        """The names of stores that a node of the user's names; those that it describes are added."""
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
        """In front of a repartition topic: rows without a key go no further, unless a join behind it wants them."""

        def open_step(bindings: Bindings) -> Step:
            return each if self._wants_null_keys(name) else passing(bindings.count)

        self.process(name, (parent,), Operator(open_step))

    def _wants_null_keys(self, name: str) -> bool:
        """Whether a left or outer join lies behind a node, through internal topics too."""
        reached = {name}
        for node in self.topology.nodes.values():
            topics = node.topics if isinstance(node, SourceNode) else ()
            if reached.intersection((*node.parents, *(f"topic {topic}" for topic in topics))):
                reached.add(node.name)
                if isinstance(node, SinkNode):
                    reached.add(f"topic {node.topic}" if node.topic in self.topology.repartitions else node.name)
        return not self.null_keys.isdisjoint(reached)


def next_serde(given: SerdeLike | None, before: Serde, *, key: bool = False) -> Serde:
    """The declared type holds until another one is declared."""
    return before if given is None else serde_of(given, key=key)
