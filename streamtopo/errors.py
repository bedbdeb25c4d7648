"""Every error a user can meet: each says where, what, and what next."""

from __future__ import annotations


class StreamtopoError(Exception):
    """What everything here raises on purpose."""


class TopologyError(StreamtopoError):
    """The description is wrong: found while it is built, before anything runs."""


class SerdeError(StreamtopoError):
    """A value does not have the type that was declared for it, or bytes are not what was declared."""


class ConfigError(StreamtopoError):
    """An option has a name or a value that does not exist."""


class PartitionError(StreamtopoError):
    """The topics of the log do not fit the topology: missing, or with partition counts that differ."""


class FingerprintError(StreamtopoError):
    """The topology changed in a way that would orphan or misread the state it left behind."""


class LogError(StreamtopoError):
    """The log refused or could not do what was asked of it."""


class LogDamaged(LogError):
    """The log's files hold something else than what was written to them."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


class BrokerError(StreamtopoError):
    """A development broker cannot be fetched, started or ended."""


class StoreError(StreamtopoError):
    """A state store cannot be opened, read or written."""


class StoreFailed(StoreError):
    """The disk under a state store failed, or its files are damaged: no fault of the record it was read for."""


class StoreInUse(StoreError):
    """Another living worker has a task's stores; if the log gave the task away, it lets go of them in a moment."""


class StepError(StreamtopoError):
    """A step raised: names the node and the record it was working for; the user's own error is its cause."""

    def __init__(self, node: str, place: str, cause: BaseException, hint: str = "") -> None:
        reason = str(cause) if isinstance(cause, StreamtopoError) else repr(cause)
        super().__init__(f'step "{node}" failed on {place}: {reason}' + (f"; {hint}" if hint else ""))
        self.node = node
        self.place = place
        self.__cause__ = self._cause = cause

    def with_hint(self, hint: str) -> StepError:
        return StepError(self.node, self.place, self._cause, hint)
