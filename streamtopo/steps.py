"""Steps: what nodes do with the rows that reach them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from streamtopo.records import NOTHING, Chunk, ChunkFunction, PlacedPuts
from streamtopo.stores.rows.state import State


class Step(ABC):
    """What a node does in one task. Only `process` is required.

    A step is made again after every rollback, so it may only remember what its stores can give back.
    """

    rows: State | None = None
    """The table that it keeps: the rows that nodes see which watch this one."""
    leaves_out = False
    """Whether it notes rows on which it fails (`noted`) before it keeps anything of them, and goes on."""

    @abstractmethod
    def process(self, chunk: Chunk) -> Chunk:
        """Take these rows; returns those for the node's children. The chunk it is given stays as it is."""

    def before_commit(self) -> Chunk:
        """All rows have been processed, and a commit follows: returns what a cache held back; rows may expire."""
        return NOTHING

    @property
    def stream_time(self) -> int:
        """The time of its clock, for steps that act when time moves without a record; else -1."""
        return -1

    def advance(self, moment: Chunk) -> Chunk:
        """Stream time reaches that of this one row, which is not a record; returns what that closes.

        The clock of the step may be there already: it was held back, and has caught up.
        """
        return NOTHING

    def punctuate(self, time: int, call: Callable[[], object]) -> Chunk:
        """Run a call that the user's processor has scheduled; returns what it forwards."""
        call()
        return NOTHING

    def close(self) -> None:  # noqa: B027  most steps have nothing to close
        """The step is not used any more: the task has moved, or was rolled back."""


class FunctionStep(Step):
    """A step without memory: a function."""

    def __init__(self, function: ChunkFunction) -> None:
        self._function = function

    @property
    def process(self) -> ChunkFunction:
        """The function itself: so a call of it is one call, not two."""
        return self._function


class WatchingStep(Step):
    """A step that reads tables which other nodes keep, and is sent what those put into them."""

    @abstractmethod
    def process_watching(self, chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        """Like `process`; `puts` has those of each table, in the order of the tables, or is empty if there are none."""

    def process(self, chunk: Chunk) -> Chunk:
        return self.process_watching(chunk, ())


class WatchingFunction(WatchingStep):
    """One without memory: a function."""

    def __init__(self, function: Callable[[Chunk, Sequence[PlacedPuts]], Chunk]) -> None:
        self._function = function

    def process_watching(self, chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        return self._function(chunk, puts)


StepLike = Step | ChunkFunction
"""What operators are opened as."""


def step_of(given: StepLike) -> Step:
    return given if isinstance(given, Step) else FunctionStep(given)
