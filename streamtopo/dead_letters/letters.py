"""A dead letter: the record that failed, and what its headers say about the failure."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamtopo.dead_letters.families import family_of
from streamtopo.processors import Record
from streamtopo.records import TopicPartition
from streamtopo.settings.config import WorkerConfig


def dead_letter_topic(application_id: str, name: str = WorkerConfig.dead_letter_topic) -> str:
    """The usual one of an application; `name` is the worker's option."""
    return name.replace("APPLICATION", application_id)


class Letter(NamedTuple):
    """Fields are None if there is no header for them."""

    record: Record
    """As it was in its source: without the headers about the failure."""
    source: TopicPartition | None = None
    offset: int | None = None
    """In the source."""
    exception: str | None = None
    message: str | None = None
    stacktrace: str | None = None
    node: str | None = None
    place: str | None = None
    stage: str | None = None
    task: str | None = None
    application: str | None = None
    attempts: int | None = None
    call: str | None = None
    """What was called if there was no record."""
    cut: int | None = None
    """The bytes that the value had, if the letter was cut."""


_TEXTS = ("exception", "message", "stacktrace", "node", "place", "stage", "task", "application", "call")
_NUMBERS = ("offset", "attempts", "cut")


def letter_of(record: Record) -> Letter:
    """Of two headers with the same name the later one counts. The other one came with the record, and stays in it."""
    family = family_of(name for name, _ in record.headers)
    found: dict[str, bytes | None] = {}
    own = []
    for name, data in reversed(record.headers):
        if family.prefixes and name.startswith(family.prefixes) and name not in found:
            found[name] = data
        else:
            own.append((name, data))
    fields = {
        field: next((data for name in names if (data := found.get(name)) is not None), None)
        for field, names in family.names.items()
    }
    topic, partition = text_of(fields.get("topic")), family.number(fields.get("partition"))
    timestamp = family.number(fields.get("timestamp"))
    about: dict[str, Any] = {field: text_of(fields.get(field)) for field in _TEXTS}
    about |= {field: family.number(fields.get(field)) for field in _NUMBERS}
    return Letter(
        record._replace(headers=tuple(reversed(own)), timestamp=record.timestamp if timestamp is None else timestamp),
        TopicPartition(topic, partition) if topic and partition is not None else None,
        **about,
    )


def text_of(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
