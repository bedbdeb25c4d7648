"""How a processor node works, and what a task offers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from streamtopo.processors import Processor
from streamtopo.steps import Step, StepLike
from streamtopo.stores.rows.state import State
from streamtopo.topology.clocks import OperatorClock, Register
from streamtopo.topology.coroutines import CallLimits, Coroutine

T = TypeVar("T")


class Bindings(Protocol):
    """What a task offers the operators it opens; the engine implements it (`engine/task/context.py`)."""

    application_id: str
    partition: int
    """That of the records which the task reads."""

    def state(self, name: str, *, sends_old: bool = False) -> State:
        """The rows of a store in this task; with `sends_old`, their updates carry the old values."""
        ...

    def clock(self, name: str, *, led: bool = False) -> OperatorClock:
        """A time that an operator keeps, moved by rows; it is committed, restored and rolled back with the task.

        With `led` it is stream time: behind a repartition topic it also moves if other tasks got the rows.
        """
        ...

    def committed_time(self, clock: str) -> int:
        """The time that this clock had at the last commit."""
        ...

    def register(self, name: str) -> Register:
        """The same for any other number, which rows do not move; names of clocks and of registers must differ."""
        ...

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """An object that several steps of the task use: the first of them makes it, and again after a rollback."""
        ...

    def count(self, counter: str, rows: int = 1) -> None:
        """Count rows that an operator dropped, by the reason's name."""
        ...

    def await_all(self, function: Coroutine, columns: list[list[Any]], limits: CallLimits) -> list[Any]:
        """Await the function for each row: the `Awaiting` of `topology/coroutines.py`."""
        ...

    def process(self, node: str, supplier: Callable[[], Processor], fixed_key: bool) -> Step:
        """A step that runs a processor of the user's."""
        ...


class Timing(Enum):
    """What an operator does with time."""

    UNUSED = "unused"
    """It has no clock, and forwards rows at once, with the times of the records that they are made from, or later."""
    USED = "used"
    """The same, but it has a clock."""
    CHANGED = "changed"
    """It may also forward rows long after these records, or with other times."""


class StillOpen(NamedTuple):
    """What is known of rows that come when windows close: those still to come are later than `register` - `length`."""

    register: str
    """Its value is a time; windows that end by then were forwarded, and will not be again."""
    length: int
    """How much older than the end of its window a row may be."""


@dataclass(frozen=True)
class Operator:
    """How a processor node works."""

    open: Callable[[Bindings], StepLike]
    """Makes the step of one task; called again after a rollback."""
    records: bool = False
    """True for processors of the user's: they take one record at a time, and may ask for its offset and time."""
    at_once: int | None = None
    """How many records a round may have at most, where each may take long; None: no limit."""
    stateless: bool = False
    """It forwards what it makes of each row, perhaps with rows that it looks up, and does nothing else."""
    timing: Timing = Timing.UNUSED
    """Processors of the user's may do anything: for them it is always CHANGED."""
    still_open: StillOpen | None = None
    """For one with CHANGED, if something is known of the rows that it will forward."""
    function: Any = None
    """The user's function that it calls, if there is one, by which errors and drawings name the step."""
    makes: str = "value"
    """What the function returns: "value", "key" or "key and value" of rows; "" if rows are forwarded as they were."""
    forwards_all: bool = False
    """It forwards one row for each row."""

    def __post_init__(self) -> None:
        if self.records:
            object.__setattr__(self, "timing", Timing.CHANGED)
