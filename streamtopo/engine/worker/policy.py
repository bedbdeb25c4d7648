"""What to do with a record that fails: stop, or continue without it, and what to write about it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from streamtopo.errors import FailedRecord, StepError
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.config import OnError

logger = logging.getLogger("streamtopo")

_INSTEAD = 'fix that, or start with --on-error skip (on_error="skip") to skip such records'


class ErrorPolicy(Protocol):
    def reject(self, failed: FailedRecord) -> None:
        """Return to continue without the record, or raise StepError to stop.

        This may be called again for the same record, when its round is repeated; so it must not have effects.
        """
        ...

    def outputs(self, rejected: Sequence[FailedRecord]) -> Iterable[tuple[TopicPartition, Columns]]:
        """What to write in the commit that passes these records: exactly once, if the guarantee is exactly-once.

        Records of global tables are not among them, because every worker reads these again when it starts.
        """
        return ()


class Stop(ErrorPolicy):
    def reject(self, failed: FailedRecord) -> None:
        raise StepError(failed, _INSTEAD)


class Skip(ErrorPolicy):
    def reject(self, failed: FailedRecord) -> None:
        """The record is logged and counted, and processing continues."""


def policy_of(on_error: OnError) -> ErrorPolicy:
    return Stop() if on_error is OnError.FAIL else Skip()


class Rejections:
    """Asks the policy about failed records, and counts those that are left out: once, even if a round is repeated."""

    def __init__(self, policy: ErrorPolicy) -> None:
        self.skipped = 0
        self.outputs = policy.outputs
        self._policy = policy
        self._known: set[tuple[str, str]] = set()
        """What was left out since the last commit."""

    def reject(self, failed: FailedRecord) -> None:
        self._policy.reject(failed)
        if failed.identity not in self._known:
            self._known.add(failed.identity)
            self.skipped += 1
            logger.warning("skipped: %s", StepError(failed))

    def committed(self) -> None:
        self._known.clear()
