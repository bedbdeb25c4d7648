"""Turns a subtopology into a program: stations, in an order that gives the same results as one record at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from streamtopo.engine.program.depth_first import DepthFirst
from streamtopo.engine.program.edges import Edges, Flow, edges_of
from streamtopo.engine.program.outbox import Outbox
from streamtopo.engine.program.shape import heard, shape_of
from streamtopo.engine.program.stations import Failure, Numbers, Station, Unit
from streamtopo.operators.stateless import each
from streamtopo.records import Chunk, number_of
from streamtopo.row_calls import FailedRow, FailedRows, leaving_out
from streamtopo.steps import Step, StepLike, step_of
from streamtopo.topology.nodes import Node, ProcessorNode, SinkNode, Subtopology

logger = logging.getLogger("streamtopo")

LeaveOut = Callable[[Mapping[int, Failure]], object]
"""Decides about records that failed, by their numbers; raises Failure if one of them must not be left out."""
LeaveOutRow = Callable[[FailedRow], object]
"""The same for a row that no record has made."""


class Opener(Protocol):
    """Makes the steps of one task."""

    task_id: str

    def open(self, node: ProcessorNode) -> StepLike: ...

    def sink(self, node: SinkNode) -> StepLike: ...

    def leave_out(self, numbers: Collection[int]) -> None:
        """These records failed: they do not move stream time."""
        ...


class Program:
    """The steps of a subtopology, opened for one task. After a rollback there is a new one, which remembers nothing."""

    def __init__(
        self,
        subtopology: Subtopology,
        task: Opener,
        outbox: Outbox,
        *,
        depth_first: bool = False,
        before_sending: Callable[[], None] = lambda: None,
    ) -> None:
        self.shape = shape_of(subtopology, depth_first=depth_first)
        self._task = task
        self._outbox = outbox
        self._before_sending = before_sending
        self._numbers = Numbers(ordered=self.shape.ordered, paths=self.shape.paths)
        edges = edges_of(subtopology.nodes, self.shape)
        self._steps: dict[str, Step] = {}
        try:
            for node in subtopology.nodes:
                self._steps[node.name] = step_of(_opened(node, task))
        except BaseException:
            self.close()
            raise
        stations = [Station(name, step, edges[name], self._numbers) for name, step in self._steps.items()]
        self.timed = _below([station.name for station in stations if station.follows_time], subtopology.nodes)
        """Nodes that may get rows because time moves, and those that send them."""
        self.sinks = {sink.name for sink in subtopology.sinks}
        first = _stateless(subtopology.nodes) - self.shape.together
        self._units = _in_running_order(stations, self.shape.together, first)
        self.leaving_out = self._leaving_out(subtopology.nodes) - self.timed
        """Nodes that can leave out records on which they fail: nothing was kept of these before."""
        _share(self._units, edges.values(), self.sinks)

    def run(self, given: Mapping[str, Chunk]) -> None:
        """Send the rows of the sources through all nodes."""
        with self._pass() as flow:
            for unit in self._units:
                unit.run(flow, given)

    def run_carefully(self, given: Mapping[str, Chunk], leave_out: LeaveOut) -> Collection[int]:
        """The same, without the records on which nodes fail that can leave them out; returns their numbers.

        Rows have an order: so whatever such a record has led to so far can still be taken back. If another node fails,
        the Failure has the numbers of all records on which it does.
        """
        failures: dict[int, Failure] = {}
        numbers: set[int] = set()
        with self._pass() as flow:
            for unit in self._units:
                if not unit.names <= self.leaving_out:
                    _run_to_the_end(unit, flow, given)
                    continue
                with leaving_out(unit) as failed:
                    unit.run(flow, given)
                if found := _move(failed, failures):
                    numbers |= found
                    for place in (self._task, flow, self._outbox):
                        place.leave_out(found)
            try:
                if failures:
                    leave_out(failures)
            finally:
                failures.clear()  # the frames in their tracebacks refer to this one
        return numbers

    def before_commit(self) -> None:
        """Forward what caches held back, beginning with those upstream."""
        with self._pass() as flow:
            for unit in self._units:
                if flow.rows or flow.puts:
                    unit.run(flow, {})
                unit.before_commit(flow)

    def advance(self, time: int = -1) -> None:
        """Stream time is this now, or that of each step, if that is later: forward what that closes."""
        with self._pass() as flow:
            for unit in self._units:
                unit.run(flow, {})
                unit.advance(flow, time)

    def advance_carefully(self, leave_out: LeaveOutRow, time: int = -1) -> None:
        """The same, without the rows on which functions fail."""
        with self._pass() as flow:
            for unit in self._units:
                with leaving_out(unit) as failed:
                    unit.run(flow, {})
                    unit.advance(flow, time)
                for row in failed:
                    leave_out(row)

    def punctuate(self, node: str, time: int, call: Callable[[], object]) -> None:
        """Run a call that a processor has scheduled, and send what it forwards."""
        with self._pass() as flow:
            for unit in self._units:
                if node in unit.names:
                    unit.punctuate(node, time, call, flow)
                else:
                    unit.run(flow, {})

    def close(self) -> None:
        """Close all steps, even if one of them raises an error."""
        steps, self._steps = self._steps, {}
        for name, step in steps.items():
            try:
                step.close()
            except Exception:
                logger.exception('task %s: "%s" raised while it was closed', self._task.task_id, name)

    def _leaving_out(self, nodes: Iterable[Node]) -> set[str]:
        """Those that find rows on which they fail, and run before anything was kept of the same records."""
        sources: dict[str, frozenset[str]] = {}
        stateless = set()
        for node in nodes:
            above = frozenset[str]().union(*(sources[parent] for parent in node.parents))
            sources[node.name] = above or frozenset([node.name])
            if _keeps_nothing(node):
                stateless.add(node.name)
        found: set[str] = set()
        kept: set[str] = set()
        """The sources whose records have reached a node that may have kept something of them."""
        for unit in self._units:
            reached = frozenset[str]().union(*(sources[name] for name in unit.names))
            leaves_out = unit.names <= stateless or all(self._steps[name].leaves_out for name in unit.names)
            if leaves_out and kept.isdisjoint(reached) and self.shape.together.isdisjoint(unit.names):
                found |= unit.names
            if not unit.names <= stateless:
                kept |= reached
        return found

    @contextmanager
    def _pass(self) -> Iterator[Flow]:
        """All units run in their order, then the outputs are sent; if one fails, nothing is."""
        self._numbers.restart()
        try:
            yield Flow()
            self._before_sending()
            self._outbox.close_pass()
        except BaseException:
            self._outbox.discard()
            raise


def _opened(node: Node, task: Opener) -> StepLike:
    match node:
        case SinkNode():
            return task.sink(node)
        case ProcessorNode():
            return task.open(node)
        case _:
            return each


def _stateless(nodes: Iterable[Node]) -> set[str]:
    """Nodes without state that do not come after one with state: what they do has no effects before the pass ends."""
    found: set[str] = set()
    for node in nodes:
        if _keeps_nothing(node) and found.issuperset(node.parents):
            found.add(node.name)
    return found


def _keeps_nothing(node: Node) -> bool:
    return not isinstance(node, ProcessorNode) or node.operator.stateless


def _run_to_the_end(unit: Unit, flow: Flow, given: Mapping[str, Chunk]) -> None:
    """If it fails, all is undone. So it may go on, to find all records on which it fails."""
    try:
        with leaving_out(unit, undone=True) as failed:
            unit.run(flow, given)
    except Failure:
        if not failed:
            raise  # otherwise it may only be a consequence
    failures: dict[int, Failure] = {}
    if found := _move(failed, failures):
        failures[min(found)].numbers = sorted(found)
        try:
            raise failures[min(found)]
        finally:
            failures.clear()


def _move(failed: FailedRows, failures: dict[int, Failure]) -> set[int]:
    """Add the first failure of each record, by its number; returns these numbers."""
    numbers = set()
    while failed:
        node, order, _, _, error = failed.pop(0)
        if order is None:  # made by time, and not by a record
            raise Failure(node, error)
        numbers.add(number_of(order))
        failures.setdefault(number_of(order), Failure(node, error))
    return numbers


def _below(first: Collection[str], nodes: Iterable[Node]) -> set[str]:
    """These nodes, and all that come after them."""
    found = set(first)
    for node in nodes:
        if not found.isdisjoint(heard(node)):
            found.add(node.name)
    return found


def _in_running_order(stations: list[Station], together: frozenset[str], first: set[str]) -> list[Unit]:
    """Every unit after those that send to it; sinks as early as possible, so that they read before siblings write.

    Those in `first`, of which all parents are among them, come before all others.
    """
    units: list[Unit] = [station for station in stations if station.name not in together]
    if together:
        units.append(DepthFirst([station for station in stations if station.name in together]))
    place = {station.name: (bool(station.edges.leaving), at) for at, station in enumerate(stations)}
    ordered: list[Unit] = []
    done: set[str] = set()
    while units:
        ready = [unit for unit in units if unit.hears <= done]
        unit = min(ready, key=lambda unit: (not unit.names <= first, min(place[name] for name in unit.names)))
        units.remove(unit)
        ordered.append(unit)
        done |= unit.names
    return ordered


def _share(units: list[Unit], edges: Iterable[Edges], sinks: set[str]) -> None:
    """Where rows go several ways, all units but the last to run get a copy. Sinks only read, and run first."""
    turn = {name: place for place, unit in enumerate(units) for name in unit.names}
    for several in edges:
        last = max(several.leaving, key=lambda edge: (turn[edge.child], edge.position), default=None)
        for edge in several.leaving:
            edge.copies = edge is not last and edge.child not in sinks
