"""All errors that users can see. Each message says where, what, and what to do next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


class StreamtopoError(Exception):
    """Base class of all errors of this package."""


class TopologyError(StreamtopoError):
    """The topology is invalid. Raised while it is described, before anything runs."""


class SerdeError(StreamtopoError):
    """A value does not have its declared type, or bytes cannot be decoded as the declared type."""

    misfit = ""
    """"key" or "value" if a step made one that does not have the type declared before."""


class ConfigError(StreamtopoError):
    """An option does not exist, or its value is invalid."""


class PartitionError(StreamtopoError):
    """The topics of the log do not fit the topology: topics are missing, or their numbers of partitions differ."""


class FingerprintError(StreamtopoError):
    """With this change of the topology, its existing state would be lost or read in a wrong way."""


class LogError(StreamtopoError):
    """An operation of the log failed or was refused."""


class CommitsRefused(LogError):
    """The log refused several commits of a worker, one after the other."""


class RecordTooLarge(LogError):
    """A record, or several records sent together, are larger than the log accepts."""

    def __init__(self, message: str, topic: str) -> None:
        super().__init__(message)
        self.topic = topic


class LogDamaged(LogError):
    """The files of the log are damaged."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


class BrokerError(StreamtopoError):
    """A development broker cannot be downloaded, started or stopped."""


class StoreError(StreamtopoError):
    """A state store cannot be opened, read or written."""


class StoreFailed(StoreError):
    """The disk of a state store failed, or its files are damaged. The current record is not the cause."""


class StoreInUse(StoreError):
    """Another running worker has the stores of a task. If the task was moved, that worker closes them soon."""


Stage = Literal["decode", "step", "produce"]
"""Where a record failed: when it was read, in a step, or when it was written to a topic."""


@dataclass(frozen=True)
class FailedRecord:
    """A record that a node could not process, with its bytes as in the log; or a call without a record."""

    node: str
    cause: BaseException
    task: str
    topic: str | None = None
    """None for a call."""
    partition: int = -1
    offset: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1
    call: str = ""
    """What was called if there is no record, such as "the punctuation at stream time 20"."""
    stage: Stage = "step"
    attempts: int = 1
    """How often it has been tried."""
    code_place: str = ""
    """The node for people: the topic that it reads or writes, and where the user's program makes it, such as
    "to_cents, orders.py:31" or "writes totals, orders.py:35"."""
    hint: str = ""
    """What may help: the step that made a value of a wrong type, for example."""

    @property
    def place(self) -> str:
        """The topic, the partition and the offset of the record as text."""
        if self.topic is None:
            return f"task {self.task}, {self.call}"
        return f"{self.topic}/{self.partition} offset {self.offset}"

    @property
    def step(self) -> str:
        """The node, its topic, and its place in the user's program."""
        return f'step "{self.node}"' + (f" ({self.code_place})" if self.code_place else "")

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for each failure of the same record or call in the same node."""
        return self.node, self.place


class StepError(StreamtopoError):
    """A step failed. The message names the node and the record; the original error is the cause."""

    def __init__(self, failed: FailedRecord, hint: str = "") -> None:
        reason = safely(str if isinstance(failed.cause, StreamtopoError) else repr, failed.cause)
        key = "" if failed.key is None else f"the record's key is {_text(failed.key):.80}"
        message = f"{failed.step} failed on {failed.place}: {reason}"
        super().__init__("; ".join(filter(None, [message, failed.hint, key, hint])))
        self.failed = failed
        self.__cause__ = failed.cause


class UnitWarning(UserWarning):
    """A short duration without a unit, such as 60, means milliseconds. Perhaps you mean seconds."""


def faults() -> tuple[type[Exception], ...]:
    """What a function raises because of its record. Python calls this only when `except faults()` has an error.

    A CancelledError is no Exception, but comes out of plain functions, too, if a client they use has a loop of its own.
    """
    loaded = sys.modules.get("asyncio.exceptions")  # slow to import
    return (Exception,) if loaded is None else (Exception, loaded.CancelledError)


def safely(write: Callable[[object], str], thing: object) -> str:
    """What str or repr write about an error or a value. Classes of users may have their own, which may fail."""
    try:
        return write(thing)
    except Exception:
        return f"{type(thing).__name__}, <{write.__name__}() failed>"


def _text(key: bytes) -> str:
    """The key as people read it, if it is a text."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return repr(key)
    return repr(text) if text.isprintable() else repr(key)
