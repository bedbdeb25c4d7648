"""Where a table's rows come from: decided while the topology is described, as later operators ask for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from streamtopo.dsl.naming import Graph
from streamtopo.operators.lookup import Derived, Kept, Table
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.state import Row, State
from streamtopo.topology import Bindings


class Origin(Protocol):
    @property
    def store(self) -> StoreSpec | None:
        """What its rows are kept in, if they are."""
        ...

    @property
    def versioned(self) -> bool:
        """Whether its updates say which of them are not the latest version of their row."""
        ...

    def rows(self) -> Table:
        """Where a join finds rows; a table that keeps none so far, and cannot derive them, begins to."""
        ...

    def send_old(self, *, keep: bool) -> bool:
        """Updates are to carry old values, of rows that are kept or, with `keep`, begin to be; true if they will."""
        ...


class KeptOrigin:
    """A node that keeps rows in a store, or would if somebody asked."""

    def __init__(
        self, graph: Graph, node: str, spec: StoreSpec, *, kept: bool, parents: tuple[Origin, ...] = ()
    ) -> None:
        """`parents` are tables whose old values this one's are made from, rather than taken from its own rows."""
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
        """The rows, for the node's step in one task."""
        state: State = bindings.state(self._spec.name)
        state.sends_old = self.sends_old
        return state

    def _keep(self) -> None:
        if self.store is None:
            self.store = self._graph.topology.add_store(self._spec)
            self._graph.topology.connect(self._node, self._spec.name)


class DerivedOrigin:
    """A node that makes its rows from those of other tables, and keeps none."""

    store = None

    def __init__(self, parents: tuple[Origin, ...], derive: Callable[..., Row | None]) -> None:
        """`derive(key, row of each parent)` gives the row."""
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
