"""Turns a subtopology into a program: stations in an order that gives the results of one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamtopo.engine.depth_first import DepthFirst
from streamtopo.engine.outbox import Outbox
from streamtopo.engine.shape import Shape, shape_of
from streamtopo.engine.stations import Edge, Edges, Flow, Numbers, Station, Unit
from streamtopo.operators.stateless import each
from streamtopo.records import EVERY_CHILD, Chunk, Step
from streamtopo.topology import Bindings, Node, ProcessorNode, SinkNode, Subtopology


class Program:
    """A subtopology's steps, opened for one task; made anew after a rollback, and then it remembers nothing."""

    def __init__(
        self,
        subtopology: Subtopology,
        bindings: Bindings,
        outbox: Outbox,
        sink: Callable[[SinkNode], Step],
        *,
        depth_first: bool = False,
        before_sending: Callable[[], None] = lambda: None,
    ) -> None:
        self.shape = shape_of(subtopology, depth_first=depth_first)
        self._outbox = outbox
        self._before_sending = before_sending
        self._numbers = Numbers(ordered=self.shape.ordered, paths=self.shape.paths)
        edges = _edges(subtopology.nodes, self.shape)
        for node in subtopology.nodes:
            if edges[node.name].watched:
                bindings.state((node.stores + node.uses)[0]).watched = True  # type: ignore[union-attr]
        stations = [
            Station(node.name, _step(node, bindings, sink), edges[node.name], self._numbers)
            for node in subtopology.nodes
        ]
        self._units = _in_running_order(stations, self.shape.together)
        _share(self._units, edges.values(), {sink.name for sink in subtopology.sinks})

    def run(self, given: Mapping[str, Chunk]) -> None:
        """Pass the sources' rows through all nodes."""
        self._pass(lambda unit, flow: unit.run(flow, given))

    def flush(self) -> None:
        """Pass on what the caches held back, caches upstream first."""
        self._pass(_run_then_flush)

    def advance(self, time: int) -> None:
        """Move stream time on, and pass on what that closes."""

        def take(unit: Unit, flow: Flow) -> None:
            unit.run(flow, {})
            unit.advance(flow, time)

        self._pass(take)

    def act(self, node: str, time: int, call: Callable[[], object]) -> None:
        """Let a processor act of its own accord, and pass on what it forwards."""

        def take(unit: Unit, flow: Flow) -> None:
            if node in unit.names:
                unit.act(node, time, call, flow)
            else:
                unit.run(flow, {})

        self._pass(take)

    def _pass(self, take: Callable[[Unit, Flow], None]) -> None:
        flow: Flow = {}
        self._numbers.restart()
        try:
            for unit in self._units:
                take(unit, flow)
            self._before_sending()
            self._outbox.close_pass()
        except BaseException:
            self._outbox.discard()
            raise


def _run_then_flush(unit: Unit, flow: Flow) -> None:
    unit.run(flow, {})
    unit.flush(flow)


def _step(node: Node, bindings: Bindings, sink: Callable[[SinkNode], Step]) -> Step:
    match node:
        case SinkNode():
            return sink(node)
        case ProcessorNode(operator=operator):
            return operator.open(bindings)
        case _:
            return each


def _edges(nodes: tuple[Node, ...], shape: Shape) -> dict[str, Edges]:
    edges = {node.name: Edges([], [], []) for node in nodes}
    for node in nodes:
        for side, parent in enumerate(node.parents):
            edge = Edge(parent, node.name, len(edges[parent].leaving), side)
            edges[node.name].arriving.append(edge)
            edges[parent].leaving.append(edge)
    for node in nodes:
        if isinstance(node, ProcessorNode) and node.name not in shape.together:
            for side, table in enumerate(node.watches, start=len(node.parents)):
                edge = Edge(table, node.name, EVERY_CHILD, side, copies=True, as_forwarded=node.as_forwarded)
                edges[node.name].arriving.insert(0, edge)  # what is put comes before what is handed on
                edges[table].watched.append(edge)
    for several in edges.values():
        for edge in several.leaving:
            edge.forks = shape.paths and len(several.leaving) > 1
    return edges


def _in_running_order(stations: list[Station], together: frozenset[str]) -> list[Unit]:
    """Every unit after those it hears from; sinks as early as can be, so that they read before siblings write."""
    units: list[Unit] = [station for station in stations if station.name not in together]
    if together:
        units.append(DepthFirst([station for station in stations if station.name in together]))
    heard = {unit: {edge.parent for edge in unit.arriving} for unit in units}  # type: ignore[attr-defined]
    place = {station.name: (bool(station.leaving), at) for at, station in enumerate(stations)}
    ordered: list[Unit] = []
    done: set[str] = set()
    while units:
        ready = [unit for unit in units if heard[unit] <= done]
        unit = min(ready, key=lambda unit: min(place[name] for name in unit.names))
        units.remove(unit)
        ordered.append(unit)
        done |= unit.names
    return ordered


def _share(units: list[Unit], edges: Iterable[Edges], sinks: set[str]) -> None:
    """Decide who gets a copy where rows fork: all but the last to run. Sinks only read, and run first."""
    turn = {name: place for place, unit in enumerate(units) for name in unit.names}
    for several in edges:
        last = max(several.leaving, key=lambda edge: (turn[edge.child], edge.position), default=None)
        for edge in several.leaving:
            edge.copies = edge is not last and edge.child not in sinks
