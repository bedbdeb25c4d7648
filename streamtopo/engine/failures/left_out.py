"""What becomes of a record that failed, if the worker does not stop at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamtopo.errors import FailedRecord
from streamtopo.records import Headers


class NewLetter(NamedTuple):
    """A record in a topic for dead letters."""

    topic: str
    partition: int
    """That of the record; the topic may have fewer."""
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    """Those of the record."""
    errors: Headers
    """About the failure; they follow the others."""


class LeftOut(NamedTuple):
    """A record that failed, and that processing continues without."""

    offset: int
    """-1 for a call."""
    letter: NewLetter | None


class TryAgain(Exception):
    """The record is to be tried again later; until then, what comes after it in its partition waits."""

    def __init__(self, failed: FailedRecord, at: float) -> None:
        super().__init__(failed.place)
        self.attempts = failed.attempts
        """How often it has been tried."""
        self.at = at
        """When to try it again, by the steady clock of the worker."""


Reject = Callable[[FailedRecord], LeftOut]
"""Decides about a record that failed: raises StepError to stop, TryAgain, or returns to continue without the record.

It may be called again for the same record, when its round is repeated; so it must not have effects.
"""
