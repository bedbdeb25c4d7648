"""What a task remembers of records that failed in its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamtopo.engine.failures.left_out import LeftOut, Reject, TryAgain
from streamtopo.errors import FailedRecord
from streamtopo.records import TopicPartition

_EXPECTED = 1000
"""For how many rounds after a failure more are expected. It costs a little to be prepared."""
_UNDONE = 30
"""For how many rounds after a failure that had to be undone. To be prepared for these costs more."""


class Retrying(NamedTuple):
    """A record that is tried again. What comes after it waits."""

    partition: TopicPartition
    offset: int
    at: float
    """When to try it again, by the steady clock."""


class Setbacks:
    def __init__(self, now: Callable[[], float]) -> None:
        self.left_out: list[LeftOut] = []
        """Since the last commit."""
        self._now = now
        self._retrying: Retrying | None = None
        self._attempts: dict[tuple[TopicPartition, int], int] = {}
        """How often records were tried. One that has passed may still fail when caches are flushed, before a commit."""
        self._rounds = 0
        self._undone = 0

    # -- records that are left out

    def leave_out(self, failed: FailedRecord, reject: Reject) -> None:
        """If `reject` allows that; otherwise what it raises."""
        self.left_out.append(reject(failed))
        self.expect()

    @property
    def expected(self) -> bool:
        """Whether there was a failure a short time ago: then rows that fail are left out without a repetition."""
        return self._rounds > 0

    @property
    def undone(self) -> bool:
        """Whether what a failed row led to had to be undone a short time ago: then each round is prepared for that."""
        return self._undone > 0

    def expect(self, *, undone: bool = False) -> None:
        self._rounds = _EXPECTED
        if undone:
            self._undone = _UNDONE

    def round_done(self) -> None:
        self._rounds -= 1
        self._undone -= 1

    def committed(self) -> None:
        """All that was done is durable. The record that is tried again, if there is one, is not done."""
        self.left_out = []
        waits = self._retrying and self._retrying[:2]
        self._attempts = {record: tried for record, tried in self._attempts.items() if record == waits}

    # -- a record that is tried again

    def retry(self, partition: TopicPartition, offset: int, again: TryAgain) -> None:
        self._retrying = Retrying(partition, offset, again.at)
        self._attempts[partition, offset] = again.attempts

    @property
    def retrying(self) -> bool:
        return self._retrying is not None

    @property
    def waiting(self) -> bool:
        """Whether it is too early to try it again."""
        return self._retrying is not None and self._now() < self._retrying.at

    def attempts(self, partition: TopicPartition, offset: int) -> int:
        """How often this record was tried, with this time."""
        return 1 + self._attempts.get((partition, offset), 0)

    def limit(self, usual: int, first: Callable[[TopicPartition], int | None]) -> int:
        """How many rows the next round may have; `first` gives the offset of the first row that waits in an input."""
        if self._retrying is not None and first(self._retrying.partition) == self._retrying.offset:
            return 0 if self.waiting else 1
        self._retrying = None
        return usual
