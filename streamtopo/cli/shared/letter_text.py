"""Dead letters as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamtopo.cli.shared.declared_types import DeclaredTypes
from streamtopo.cli.shared.record_json import TopicRecord, members_of, to_line, value_of
from streamtopo.cli.shared.record_text import bytes_to_text
from streamtopo.cli.shared.tables import NONE, json_text, printable
from streamtopo.dead_letters.finding import PlacedLetter
from streamtopo.dead_letters.letters import Letter
from streamtopo.dead_letters.listing import Count
from streamtopo.dead_letters.selection import Place
from streamtopo.engine.compatibility.lineage import is_numbered
from streamtopo.errors import SerdeError
from streamtopo.settings.times import time_text

_LONGEST = 100
"""Characters of a message in a table."""
COLUMNS = {name: name for name in ("letter", "time", "node", "exception", "message", "source", "key")}


def letter_to_json(placed: PlacedLetter, types: DeclaredTypes, *, whole: bool) -> str:
    """An object: that of the record as in `consume --json`, at the place of the letter, and what is known about the
    failure, with the traceback if `whole`."""
    place, letter, replayed = placed
    record = to_line(TopicRecord(place.partition, place.offset, *letter.record), types)
    source = letter.source and {**letter.source._asdict(), "offset": letter.offset}
    about = {"source": source, **{name: getattr(letter, name) for name in Letter._fields[3:]}, "replayed": replayed}
    if not whole:
        del about["stacktrace"]
    return f"{record[:-1]},{json_text(about)[1:]}"


def values_of(lines: Iterable[bytes], types: Callable[[str], DeclaredTypes]) -> dict[Place, bytes | None]:
    """The values in lines of `letter_to_json`, which somebody has edited; `types` are those of a source."""
    values: dict[Place, bytes | None] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            members = members_of(line.decode())
            place = Place(int(members["partition"].value), int(members["offset"].value))
            source = (members["source"].value or {}).get("topic", "")
            value = value_of(members, types(source).value)
        except KeyError as error:
            raise SerdeError(f"line {number}: there is no {error}; give lines of streamtopo dlq export") from None
        except (SerdeError, ValueError, TypeError, AttributeError) as error:
            raise SerdeError(f"line {number}: {error}. Nothing was replayed") from None
        if place in values:
            raise SerdeError(f"line {number}: letter {place} is in an earlier line, too. Nothing was replayed")
        values[place] = value
    return values


def letter_to_row(placed: PlacedLetter, types: DeclaredTypes) -> dict[str, Any]:
    letter = placed.letter
    message = _in_line((letter.message or "").partition("\n")[0]) or ""
    return {
        "letter": placed.place,
        "time": time_text(letter.record.timestamp),
        "node": _in_line(_node(letter)),
        "exception": _in_line(letter.exception),
        "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…",
        "source": _in_line(_source(letter)),
        "key": _in_line(bytes_to_text(letter.record.key, types.key)),
    }


def count_to_row(count: Count) -> dict[str, Any]:
    return {"letters": count.letters, "node": _in_line(count.node), "exception": _in_line(count.exception)}


def _in_line(text: str | None) -> str | None:
    return None if text is None else printable(text).replace("\n", "\\n")


def letter_to_lines(placed: PlacedLetter, types: DeclaredTypes) -> Iterator[str]:
    """For people: what went wrong and where, then the record, then the traceback."""
    letter = placed.letter
    facts = {
        "letter": f"{placed.place}{' (was replayed)' if placed.replayed else ''}",
        "exception": letter.exception,
        "message": letter.message,
        "node": letter.node,
        "place": letter.place,
        "stage": letter.stage,
        "task": letter.task,
        "application": letter.application,
        "attempts": letter.attempts,
        "call": letter.call,
        "cut": letter.cut and f"it was too large; its value had {letter.cut:,} bytes",
        "source": _source(letter),
        "time": time_text(letter.record.timestamp),
    }
    for name, fact in facts.items():
        if fact is not None:
            yield f"{name:<13}{printable(str(fact))}"
    for header, data in letter.record.headers:
        yield f"{'header':<13}{printable(header)}: {printable(bytes_to_text(data))}"
    yield f"{'key':<13}{printable(bytes_to_text(letter.record.key, types.key))}"
    yield f"{'value':<13}{printable(bytes_to_text(letter.record.value, types.value))}"
    if letter.stacktrace:
        yield ""
        yield from map(printable, letter.stacktrace.expandtabs(4).splitlines())


def _node(letter: Letter) -> str | None:
    """With its place, if its name was generated."""
    if letter.node is None or letter.place is None or not is_numbered(letter.node):
        return letter.node
    return f"{letter.node} ({letter.place})"


def _source(letter: Letter) -> str:
    return NONE if letter.source is None else f"{letter.source}/{NONE if letter.offset is None else letter.offset}"
