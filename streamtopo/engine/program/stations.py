"""Nodes that process chunks: a station gathers what its parents sent, runs its step and forwards the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from streamtopo.engine.program.edges import Edges, Flow, Watch
from streamtopo.errors import LogError, StoreFailed, faults
from streamtopo.records import NOTHING, Chunk, Order, PlacedPuts, Puts
from streamtopo.steps import Step, WatchingStep

T = TypeVar("T")
NO_PUTS = Puts([], [], [], [], {})


class Failure(Exception):
    """A step raised an error. The worker finds the record that caused it, and raises a StepError."""

    def __init__(self, node: str, cause: BaseException, numbers: Sequence[int] = ()) -> None:
        super().__init__(node)
        self.node = node
        self.numbers = numbers
        """Those of the records that caused it, if they are known. Without the first one, others might not fail."""
        self.__cause__ = cause


class TakeSingly(BaseException):
    """A processor did something that affects the next record, so records must be processed one by one."""


PASSED_ON = (Failure, LogError, StoreFailed)
"""Not wrapped: errors that already name their node, and those that are not caused by a record: a skip would lose it."""


def wrapped() -> tuple[type[BaseException], ...]:
    """All others that may be caused by a record."""
    return (*faults(), TakeSingly)


class Numbers:
    """Numbers rows that were not made by a record: those that a cache held back, or that a punctuation forwards."""

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
    running: str
    """The node that runs now, or was the last to run."""
    hears: frozenset[str]
    """Nodes that send something to it, and so run before it."""

    def run(self, flow: Flow, given: Mapping[str, Chunk]) -> None:
        """Process the rows that arrived; sources take those in `given`."""
        ...

    def before_commit(self, flow: Flow) -> None:
        """Forward what caches held back."""
        ...

    def advance(self, flow: Flow, time: int) -> None:
        """Stream time moves to this without a record: forward what that closes."""
        ...

    def punctuate(self, node: str, time: int, call: Callable[[], object], flow: Flow) -> None:
        """Run a call that a processor has scheduled, and send what it forwards."""
        ...


class Station:
    """One node: gathers what arrives, processes it with its step, and sends the result to the children."""

    def __init__(self, name: str, step: Step, edges: Edges, numbers: Numbers) -> None:
        self.names = frozenset([name])
        self.running = name
        self.hears = frozenset([edge.parent for edge in edges.arriving] + [watch.table for watch in edges.watching])
        self.name = name
        self.step = step
        self.edges = edges
        self._arriving, self._leaving = edges.arriving, edges.leaving
        self._numbers = numbers
        self._process = step.process
        self._acts_before_commit = type(step).before_commit is not Step.before_commit
        self.follows_time = type(step).advance is not Step.advance
        if edges.watched:
            assert step.rows is not None, f'"{name}" is watched, so it keeps a table'
            step.rows.forwarding.watch()

    def run(self, flow: Flow, given: Mapping[str, Chunk]) -> None:
        chunk = flow.gather(self._arriving) if self._arriving else given.get(self.name, NOTHING)
        puts = self._puts_among(chunk, flow) if self.edges.watching else ()
        if not len(chunk) and not puts:
            return
        passed_on = self._process_watching(chunk, puts) if puts else self.attempt(self._process, chunk)
        if self.edges.watched:
            self._show_puts(flow)
        self._hand_on(passed_on, flow)

    def before_commit(self, flow: Flow) -> None:
        if not self._acts_before_commit:
            return
        held_back = self.held_back()
        if (table := self.step.rows) is not None and self.edges.watched and held_back.order:
            if put := table.forwarding.take_puts():  # they come before the updates of expired rows
                put = replace(put, order=held_back.order[: len(put)])
            self._show([watch for watch in self.edges.watched if watch.as_forwarded], put, flow)
        self._hand_on(held_back, flow)

    def advance(self, flow: Flow, time: int) -> None:
        if not self.follows_time:
            return
        closed = self.closed_by(time)
        if self.edges.watched:
            self._show_puts(flow)
        self._hand_on(closed, flow)

    def punctuate(self, node: str, time: int, call: Callable[[], object], flow: Flow) -> None:
        self._hand_on(self.numbered(self.attempt(self.step.punctuate, time, call)), flow)

    def held_back(self) -> Chunk:
        """What the step forwards before a commit."""
        return self.numbered(self.attempt(self.step.before_commit)) if self._acts_before_commit else NOTHING

    def closed_by(self, time: int) -> Chunk:
        """What the step forwards because stream time moves to this, or its own clock has moved."""
        if not self.follows_time or (now := max(time, self.step.stream_time)) < 0:
            return NOTHING
        return self.attempt(self.step.advance, self.moment(now))

    def moment(self, time: int) -> Chunk:
        """A row that is not a record; it gives time and order to what happens now."""
        return self.numbered(Chunk([None], [None], [time]))

    def numbered(self, chunk: Chunk) -> Chunk:
        return self._numbers.assign(chunk)

    def attempt(self, act: Callable[..., T], *arguments: object) -> T:
        try:
            return act(*arguments)
        except PASSED_ON:
            raise
        except wrapped() as error:
            raise Failure(self.name, error) from error

    def _puts_among(self, chunk: Chunk, flow: Flow) -> list[PlacedPuts]:
        """What was put into the tables that the node reads, or an empty list if nothing was."""
        came = [flow.puts.pop(watch, NO_PUTS) for watch in self.edges.watching]
        order = chunk.order or []
        return [puts.among(order) for puts in came] if any(map(len, came)) else []

    def _process_watching(self, chunk: Chunk, puts: list[PlacedPuts]) -> Chunk:
        assert isinstance(self.step, WatchingStep), f'"{self.name}" watches tables, so its step is to take puts'
        return self.attempt(self.step.process_watching, chunk, puts)

    def _show_puts(self, flow: Flow) -> None:
        """Watchers are sent what was put now, or, if they see rows as forwarded and a cache holds them back, later."""
        if (table := self.step.rows) is not None:
            held_back, put = table.forwarding.holds_back, table.forwarding.take_puts()
            self._show([watch for watch in self.edges.watched if not (watch.as_forwarded and held_back)], put, flow)

    def _show(self, watches: list[Watch], puts: Puts | None, flow: Flow) -> None:
        if puts:
            for watch in watches:
                carried = self.attempt(watch.carry, puts)
                earlier = flow.puts.get(watch)
                flow.puts[watch] = carried if earlier is None else earlier.then(carried)

    def _hand_on(self, chunk: Chunk, flow: Flow) -> None:
        if len(chunk):
            for edge in self._leaving:
                flow.send(edge, self.attempt(edge.carry, chunk))
