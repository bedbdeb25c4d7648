"""What to do with a record that fails: stop, skip it, set it aside as a dead letter, or try it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamtopo.errors import ConfigError, FailedRecord
from streamtopo.settings.durations import Duration, milliseconds

_LONGEST = 60_000
"""Milliseconds: pauses between tries grow no further."""
_ANSWERS = "fail, skip, dead-letter or retry:ATTEMPTS, such as retry:3, retry:3:1s or retry:3:1s:dead-letter"


@dataclass(frozen=True)
class Fail:
    """Stop at the record. When the worker starts again, it tries the record again."""

    def __str__(self) -> str:
        return "fail"


@dataclass(frozen=True)
class Skip:
    """Log the record, and continue without it."""

    def __str__(self) -> str:
        return "skip"


@dataclass(frozen=True)
class DeadLetter:
    """Write the record to a topic for dead letters, and continue without it."""

    topic: str | None = None
    """None: that of the application."""

    def __str__(self) -> str:
        return "dead-letter" if self.topic is None else f"dead-letter:{self.topic}"


@dataclass(frozen=True)
class Retry:
    """Try the record again after a pause, up to `attempts` times; what comes after it in its partition waits."""

    attempts: int
    backoff: int = 100
    """Milliseconds before the first new attempt; each pause is twice as long as the one before, up to a minute."""
    then: Fail | Skip | DeadLetter = Fail()
    """The answer if all attempts fail."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ConfigError(f"a record is tried again {self.attempts!r} times; give 1 or more")

    def pause(self, attempts: int) -> int:
        """Milliseconds before the next attempt, after this number of them."""
        return int(min(self.backoff * 2 ** min(attempts - 1, 30), _LONGEST))

    def __str__(self) -> str:
        return f"retry:{self.attempts}:{self.backoff}ms:{self.then}"


Answer = Fail | Skip | DeadLetter | Retry
AnswerLike = str | Answer
Decide = Callable[[FailedRecord], AnswerLike]
OnError = AnswerLike | Decide
"""An answer, or a function that gets the failed record and returns one."""
Policy = Answer | Decide
"""The same when it has been checked."""


def dead_letter(topic: str | None = None) -> DeadLetter:
    """Write records that fail to this topic. Without a topic: to the dead-letter topic of the application."""
    return DeadLetter(topic)


def retry(attempts: int, *, backoff: Duration = "100ms", then: AnswerLike = "fail") -> Retry:
    """Try a record that fails again, up to `attempts` times. If it still fails, `then` is the answer.

    The first pause is `backoff`; each pause is twice as long as the one before, up to a minute. What comes after the
    record in its partition waits; other partitions do not. It helps where the cause passes: a service does not answer.
    """
    last = answer_of(then)
    if isinstance(last, Retry):
        raise ConfigError("then= of retry is fail, skip or dead_letter, not another retry")
    return Retry(attempts, milliseconds(backoff), last)


def answer_of(given: AnswerLike) -> Answer:
    """The answer for its name.

    >>> answer_of("retry:3:1s:dead-letter")
    Retry(attempts=3, backoff=1000, then=DeadLetter(topic=None))
    """
    if isinstance(given, Answer):
        return given
    name, _, rest = str(given).partition(":")
    match name.replace("_", "-"), rest:
        case ("fail", ""):
            return Fail()
        case ("skip", ""):
            return Skip()
        case ("dead-letter", _):
            return DeadLetter(rest or None)
        case ("retry", _) if rest.partition(":")[0].isdecimal():
            return _retry(*rest.split(":", 2))
    raise ConfigError(f"on_error is {given!r:.80}; give {_ANSWERS}")


def _retry(attempts: str, backoff: str = "100ms", then: str = "fail") -> Retry:
    return retry(int(attempts), backoff=backoff, then=then)


def policy_of(given: OnError) -> Policy:
    """A function stays a function."""
    return given if callable(given) else answer_of(given)
