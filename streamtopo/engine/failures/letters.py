"""Dead letters: a failed record as it was, with headers that say where and why it failed."""

from __future__ import annotations

from collections.abc import Iterator

from streamtopo.dead_letters import headers as names
from streamtopo.engine.failures.left_out import NewLetter
from streamtopo.engine.failures.tracebacks import name_of, traceback_text
from streamtopo.errors import FailedRecord, safely
from streamtopo.records import size_of


def letter_of(failed: FailedRecord, topic: str, application: str) -> NewLetter:
    """In the form of Kafka Streams, with some headers of our own."""
    errors = [(name, text.encode(errors="replace") or None) for name, text in _errors(failed, application)]
    partition, time = max(failed.partition, 0), max(failed.timestamp, 0)
    return NewLetter(topic, partition, failed.key, failed.value, time, (*failed.headers, *errors))


def cut(letter: NewLetter, limit: int | None) -> NewLetter:
    """If it is larger than its topic accepts, without the end of the value; a header has the number of bytes before."""
    if limit is None or letter.value is None or size_of(letter.key, letter.value, letter.headers) <= limit:
        return letter
    headers = (*letter.headers, (names.CUT, str(len(letter.value)).encode()))
    room = limit - size_of(letter.key, None, headers)
    return letter._replace(value=letter.value[: max(0, room)], headers=headers)


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
