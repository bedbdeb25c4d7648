"""Dead letters: a failed record as it was, with headers that say where and why it failed."""

from __future__ import annotations

from collections.abc import Iterator

from streamtopo.dead_letters import headers as names
from streamtopo.engine.failures.left_out import NewLetter
from streamtopo.engine.failures.tracebacks import name_of, traceback_text
from streamtopo.errors import FailedRecord, safely
from streamtopo.records import size_of

_LONGEST = 10_000
"""Bytes of a shortened text."""


def letter_of(failed: FailedRecord, topic: str, application: str) -> NewLetter:
    """In the form of Kafka Streams, with some headers of our own."""
    errors = [(name, text.encode(errors="replace") or None) for name, text in _errors(failed, application)]
    partition, time = max(failed.partition, 0), max(failed.timestamp, 0)
    return NewLetter(topic, partition, failed.key, failed.value, time, failed.headers, tuple(errors))


def cut(letter: NewLetter, limit: int | None) -> NewLetter:
    """Smaller, if it is larger than its topic accepts.

    Texts about the failure are shortened. If that is not enough, the end of the value is left out; if there is no room
    for any of it, the headers of the record; and at last the end of the key. Then one more header has the number of
    bytes that the value had.
    """
    if limit is None or _size(letter) <= limit:
        return letter
    letter = letter._replace(errors=tuple((name, text and _shortened(text)) for name, text in letter.errors))
    if _size(letter) <= limit:
        return letter
    key, value, errors = letter.key, letter.value, (*letter.errors, (names.CUT, b"%d" % len(letter.value or b"")))
    headers = letter.headers if size_of(key, None, letter.headers + errors) <= limit else ()
    key = key and key[: max(0, limit - size_of(None, None, errors))]
    value = value and value[: max(0, limit - size_of(key, None, headers + errors))]
    return letter._replace(key=key, value=value, headers=headers, errors=errors)


def _size(letter: NewLetter) -> int:
    return size_of(letter.key, letter.value, letter.headers + letter.errors)


def _shortened(text: bytes) -> bytes:
    """Without half a letter at its end."""
    return text[:_LONGEST].decode(errors="ignore").encode()


def _errors(failed: FailedRecord, application: str) -> Iterator[tuple[str, str]]:
    yield names.EXCEPTION, name_of(failed.cause)
    yield names.MESSAGE, safely(str, failed.cause)
    yield names.STACKTRACE, traceback_text(failed.cause)
    if failed.topic is not None:
        yield names.TOPIC, failed.topic
        yield names.PARTITION, str(failed.partition)
        yield names.OFFSET, str(failed.offset)
    yield names.NODE, failed.node
    if failed.code_place:
        yield names.PLACE, failed.code_place
    yield names.STAGE, failed.stage
    yield names.TASK, failed.task
    yield names.APPLICATION, application
    yield names.ATTEMPTS, str(failed.attempts)
    if failed.topic is None:
        yield names.CALL, failed.call
