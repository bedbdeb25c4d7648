"""Nodes at work on chunks: a station gathers what its parents sent, takes its step, and hands the rows on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from streamtopo.errors import LogError, StoreFailed
from streamtopo.records import (
    EVERY_CHILD,
    NOTHING,
    Chunk,
    Order,
    Step,
    below,
    concatenate,
    interleave,
    private_column,
)


class Failure(Exception):
    """A step raised; the worker finds out for which record and makes a StepError of it."""

    def __init__(self, node: str, cause: BaseException) -> None:
        super().__init__(node)
        self.node = node
        self.__cause__ = cause


class TakeSingly(BaseException):
    """What a processor just did has its effect before the next record; only one by one can records be right."""


PASSED_ON = (Failure, LogError, StoreFailed)
"""Raised as they are: what has its node, and what is no fault of a record, which would be lost if it were skipped."""


@dataclass(eq=False)
class Edge:
    parent: str
    child: str
    position: int
    """The child's place among the parent's children."""
    side: int
    """The parent's place among the child's parents."""
    forks: bool = False
    """Rows that part here may meet again: their order says which way they went."""
    copies: bool = False
    """Others read the parent's rows after this child, so it gets its own."""
    as_forwarded: bool = False
    """A watched edge along which rows go when the parent forwards them, not when it puts them."""

    def carry(self, chunk: Chunk) -> Chunk:
        if chunk.routes is not None:
            chunk = chunk.select([route in (self.position, EVERY_CHILD) for route in chunk.routes])
        order = chunk.order
        if self.forks and order is not None:
            order = [below(place, self.position) for place in order]
        keys, values, old = chunk.keys, chunk.values, chunk.old
        if self.copies:
            keys, values, old = private_column(keys), private_column(values), old and private_column(old)
        return replace(chunk, keys=keys, values=values, order=order, sides=None, routes=None, old=old)


@dataclass(frozen=True)
class Edges:
    """Those of one node."""

    arriving: list[Edge]
    leaving: list[Edge]
    watched: list[Edge]


Flow = dict[Edge, Chunk]
"""The rows that are on their way along the edges."""


def send(flow: Flow, edge: Edge, chunk: Chunk) -> None:
    """Behind those that are on their way already."""
    flow[edge] = replace(concatenate([flow[edge], chunk]), sides=None) if edge in flow else chunk


class Numbers:
    """Numbers rows that no record brought: those that a cache held back until the commit, or a punctuation's."""

    def __init__(self, *, ordered: bool, paths: bool) -> None:
        self.ordered = ordered
        self.paths = paths
        self.next = 0

    def restart(self) -> None:
        self.next = 0

    def assign(self, chunk: Chunk) -> Chunk:
        if not self.ordered:
            return chunk
        first, self.next = self.next, self.next + len(chunk)
        order: list[Order] = [(number,) if self.paths else number for number in range(first, self.next)]
        return replace(chunk, order=order)


class Unit(Protocol):
    """One or several nodes that the program runs as one."""

    names: frozenset[str]

    def run(self, flow: Flow, given: Mapping[str, Chunk]) -> None:
        """Take the rows that arrived or, for sources, were given."""
        ...

    def flush(self, flow: Flow) -> None:
        """Hand on what caches held back."""
        ...

    def advance(self, flow: Flow, time: int) -> None:
        """Stream time moves on to this without a record: hand on what that closes."""
        ...

    def act(self, node: str, time: int, call: Callable[[], object], flow: Flow) -> None:
        """Let a processor of the user's do something of its own accord, and hand on what it forwards."""
        ...


class Station:
    def __init__(self, name: str, step: Step, edges: Edges, numbers: Numbers) -> None:
        self.names = frozenset([name])
        self.name = name
        self.step: Any = step
        self.arriving = edges.arriving
        self.leaving = edges.leaving
        self.watched = edges.watched
        self.numbers = numbers

    def run(self, flow: Flow, given: Mapping[str, Chunk]) -> None:
        chunk = given.get(self.name) if not self.arriving else gather(self.arriving, flow)
        if chunk is not None and len(chunk):
            passed_on = self.attempt(self.step, chunk)
            if self.watched:
                held_back = self.step.state.holds_back
                told = [edge for edge in self.watched if not (edge.as_forwarded and held_back)]
                self._tell(told, flow, self.step.state.take_puts())
            self._hand_on(passed_on, flow)

    def flush(self, flow: Flow) -> None:
        if hasattr(self.step, "flush"):
            held_back = self.numbers.assign(self.attempt(self.step.flush))
            if self.watched:
                puts = held_back.with_keys(self.step.state.index(held_back.keys))
                self._tell([edge for edge in self.watched if edge.as_forwarded], flow, puts)
            self._hand_on(held_back, flow)

    def advance(self, flow: Flow, time: int) -> None:
        if hasattr(self.step, "advance"):
            moment = self.numbers.assign(Chunk([None], [None], [time]))
            self._hand_on(self.attempt(self.step.advance, moment), flow)

    def _tell(self, edges: list[Edge], flow: Flow, puts: Chunk) -> None:
        if len(puts):
            for edge in edges:
                flow[edge] = self.attempt(edge.carry, puts)

    def act(self, node: str, time: int, call: Callable[[], object], flow: Flow) -> None:
        self._hand_on(self.numbers.assign(self.attempt(self.step.during, time, call)), flow)

    def attempt(self, act: Callable[..., Chunk], *arguments: object) -> Chunk:
        try:
            return act(*arguments)
        except PASSED_ON:
            raise
        except (Exception, TakeSingly) as error:
            raise Failure(self.name, error) from error

    def _hand_on(self, chunk: Chunk, flow: Flow) -> None:
        if len(chunk):
            for edge in self.leaving:
                send(flow, edge, self.attempt(edge.carry, chunk))


def gather(arriving: list[Edge], flow: Flow) -> Chunk:
    """What came along these edges; of several, in the order in which single records would have come."""
    if len(arriving) == 1:
        return flow.pop(arriving[0], NOTHING)
    came = [(edge.side, flow.pop(edge)) for edge in arriving if edge in flow]
    if not came:
        return NOTHING
    if len(came) == 1:
        ((side, chunk),) = came
        return replace(chunk, sides=[side] * len(chunk))
    chunk = interleave([chunk for _, chunk in came])
    sides = [side for side, _ in came]
    return replace(chunk, sides=[sides[place] for place in chunk.sides or ()])
