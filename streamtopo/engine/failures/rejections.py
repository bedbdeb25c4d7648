"""Decides about failed records, counts those that are left out, and says what is written about them."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from streamtopo.engine.failures.left_out import LeftOut, NewLetter, TryAgain
from streamtopo.engine.failures.letters import cut, letter_of
from streamtopo.engine.failures.policies import Policies
from streamtopo.engine.failures.streak import Streak
from streamtopo.errors import FailedRecord, StepError
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.on_error import DeadLetter, Retry

logger = logging.getLogger("streamtopo")

_FIRST = 10
"""So many records of a kind are logged one by one; after that, only each time their number has doubled."""


class FailureKind(NamedTuple):
    """What records that failed have in common."""

    node: str
    exception: str
    answer: str
    """"skip" or "dead-letter"."""
    place: str
    """Of the node: see `FailedRecord.code_place`."""


class Rejections:
    """Each record is counted once, even if its round is repeated."""

    def __init__(
        self,
        policies: Policies,
        application: str,
        topic: str,
        partitions: Callable[[str], int],
        now: Callable[[], float],
        limits: Mapping[str, int],
    ) -> None:
        """`topic` is that for dead letters, if the answer names no other one."""
        self.counts = Counter[FailureKind]()
        self._streaks = defaultdict[FailureKind, Streak](Streak)
        self._policies = policies
        self.application = application
        self._topic = topic
        self._partitions = partitions
        self._now = now
        self._limits = limits
        self._known: dict[tuple[str, str], LeftOut] = {}
        """What was left out since the last commit."""

    @property
    def skipped(self) -> int:
        return self._count("skip")

    @property
    def dead_letters(self) -> int:
        return self._count("dead-letter")

    def reject(self, failed: FailedRecord) -> LeftOut:
        if (known := self._known.get(failed.identity)) is not None:
            return known
        failed = self._policies.placed(failed)
        answer = self._policies.answer(failed)
        if isinstance(answer, Retry):
            raise TryAgain(failed, self._now() + answer.pause(failed.attempts))
        letter = None
        if isinstance(answer, DeadLetter):
            letter = letter_of(failed, answer.topic or self._topic, self.application)
        left_out = self._known[failed.identity] = LeftOut(failed.offset, letter)
        self._note(failed, "skip" if letter is None else "dead-letter")
        return left_out

    def outputs(self, left_out: Sequence[LeftOut]) -> Iterable[tuple[TopicPartition, Columns]]:
        """The dead letters, in the commit that passes their records: exactly once, if that is the guarantee.

        Records of global tables are not among them, because every worker reads these again when it starts.
        """
        by_target: dict[TopicPartition, list[NewLetter]] = {}
        for one in left_out:
            if (letter := one.letter) is not None:
                target = TopicPartition(letter.topic, letter.partition % self._partitions(letter.topic))
                by_target.setdefault(target, []).append(cut(letter, self._limits.get(letter.topic)))
        for target, letters in by_target.items():
            rows = [(one.key, one.value, one.timestamp, (*one.headers, *one.errors)) for one in letters]
            keys, values, times, headers = zip(*rows, strict=True)
            yield target, Columns(list(keys), list(values), list(times), list(headers))

    def committed(self) -> None:
        self._known.clear()

    def _count(self, answer: str) -> int:
        return sum(count for kind, count in self.counts.items() if kind.answer == answer)

    def _note(self, failed: FailedRecord, answer: str) -> None:
        kind = FailureKind(failed.node, type(failed.cause).__name__, answer, failed.code_place)
        self.counts[kind] += 1
        self._streaks[kind].note(failed)
        count = self.counts[kind]
        done = "skipped" if answer == "skip" else "dead letter"
        if count <= _FIRST:
            logger.warning("%s: %s", done, StepError(failed))
        elif count & (count - 1) == 0:
            logger.warning("%s: %s; it is number %d of its kind, others are not logged", done, StepError(failed), count)
