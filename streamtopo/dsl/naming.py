"""Names of nodes and stores, numbered in call order exactly as Kafka Streams numbers them."""

from __future__ import annotations

from collections.abc import Iterable

from streamtopo.errors import TopologyError
from streamtopo.serdes import Serde, SerdeLike, serde_of
from streamtopo.stores import StoreSpec
from streamtopo.topology import Operator, ProcessorNode, Topology, valid_name


class Graph:
    """A topology being built by the DSL; streams and tables of one builder share it."""

    def __init__(self, application_id: str) -> None:
        self.topology = Topology(application_id)
        self._count = 0
        self.closing: dict[str, int] = {}
        """Nodes with windowed rows: how long after a window's end it closes."""

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
        behind: tuple[str, ...] = (),
    ) -> str:
        self.topology.add(ProcessorNode(name, parents, operator, stores, watches, behind))
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


def next_serde(given: SerdeLike | None, before: Serde, *, key: bool = False) -> Serde:
    """The declared type holds until another one is declared."""
    return before if given is None else serde_of(given, key=key)
