"""Where the rows of a table come from. Later operators may need more of them while the topology is described."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from streamtopo.dsl.graph import Graph
from streamtopo.operators.joins.lookup import Derived, Kept, Table
from streamtopo.operators.tables import conversions
from streamtopo.steps import StepLike
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.state import Row, State
from streamtopo.topology.operator import Bindings, Operator


class Origin(Protocol):
    @property
    def store(self) -> StoreSpec | None:
        """The store of its rows. None if they are not kept."""
        ...

    @property
    def versioned(self) -> bool:
        """Whether its updates say if they are the latest version of their row."""
        ...

    def rows(self) -> Table:
        """Where joins find its rows. A table that cannot derive them will keep them from now on."""
        ...

    def send_old(self, *, keep: bool) -> bool:
        """Ask for old values in updates; with `keep`, rows are kept for that. Returns whether there will be any."""
        ...


class KeptOrigin:
    """A node that keeps rows in a store, or will if that is needed."""

    def __init__(
        self, graph: Graph, node: str, spec: StoreSpec, *, kept: bool, parents: tuple[Origin, ...] = ()
    ) -> None:
        """`parents` are tables from whose old values those of this table are made, instead of from its own rows."""
        self._graph = graph
        self._node = node
        self._spec = spec
        self._parents = parents
        self.sends_old = False
        self.store: StoreSpec | None = graph.topology.add_store(spec) if kept else None

    @property
    def versioned(self) -> bool:
        return self._spec.kind is Kind.VERSIONED

    def rows(self) -> Table:
        self._keep()
        return Kept(self._node, self._spec.name)

    def send_old(self, *, keep: bool) -> bool:
        if keep:
            self._keep()
        for parent in self._parents:
            parent.send_old(keep=keep)
        self.sends_old = self.store is not None
        return self.sends_old

    def open(self, bindings: Bindings) -> State:
        """The rows, for the step of one task."""
        return bindings.state(self._spec.name, sends_old=self.sends_old)

    def _keep(self) -> None:
        if self.store is None:
            self.store = self._graph.topology.add_store(self._spec)
            self._graph.topology.connect(self._node, self._spec.name)


def upserted(graph: Graph, node: str, parent: str, spec: StoreSpec, *, kept: bool) -> KeptOrigin:
    """Add a node that reads records as updates of rows. Without `kept`, it keeps them only if that is needed later."""
    origin = KeptOrigin(graph, node, spec, kept=kept)
    graph.process(node, (parent,), Operator(partial(_open_upsert, origin)), (spec.name,) if kept else ())
    return origin


def _open_upsert(origin: KeptOrigin, bindings: Bindings) -> StepLike:
    if origin.store is None:
        return conversions.passing(bindings.count)
    return conversions.upsert(origin.open(bindings), bindings.count)


class DerivedOrigin:
    """A node that derives its rows from those of other tables, and does not keep them."""

    store = None

    def __init__(self, parents: tuple[Origin, ...], derive: Callable[..., Row | None]) -> None:
        """`derive(key, row of each parent)` returns the row."""
        self._parents = parents
        self._derive = derive
        self.sends_old = False

    @property
    def versioned(self) -> bool:
        return len(self._parents) == 1 and self._parents[0].versioned

    def rows(self) -> Table:
        return Derived(tuple(parent.rows() for parent in self._parents), self._derive)

    def send_old(self, *, keep: bool) -> bool:
        asked = [parent.send_old(keep=keep) for parent in self._parents]
        self.sends_old = all(asked)
        return self.sends_old
