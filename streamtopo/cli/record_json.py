"""A record as a line of JSON and back: what `consume --json` prints, `produce --json` writes as it was.

Keys and values are shown as the JSON that they are, else as text, else in base64. `"encoding"` and `"key_encoding"`
say how to get the bytes back where that is not plain: a string is the text, and other JSON is itself.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from streamtopo.cli.shapes import NUMBERS, AnyShape, Shapes
from streamtopo.errors import SerdeError
from streamtopo.records import Headers
from streamtopo.serdes import JSON


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


_MAYBE = re.compile(rb'[\s{\["\-0-9tfn]')
"""How JSON begins: for most text the question ends here."""


class Shown(NamedTuple):
    """Bytes as JSON text, and how to get them back where that does not follow from the text."""

    text: str
    encoding: str | None = None


# -- out


def line_of(record: Record, shapes: Shapes) -> str:
    key, value = shown_key(record.key, shapes.key), shown_value(record.value, shapes.value)
    key_encoding = f',"key_encoding":"{key.encoding}"' if key.encoding else ""
    encoding = f',"encoding":"{value.encoding}"' if value.encoding else ""
    headers = ",".join([_header_text(name, data) for name, data in record.headers])
    return (
        f'{{"key":{key.text}{key_encoding},"value":{value.text}{encoding},"partition":{record.partition},'
        f'"offset":{record.offset},"timestamp":{record.timestamp},"headers":[{headers}]}}'
    )


def shown_value(data: bytes | None, shape: AnyShape = None) -> Shown:
    return Shown("null") if data is None else _shown(data, shape, exact=False)


def shown_key(data: bytes | None, shape: AnyShape = None) -> Shown:
    """The bytes must come back one by one, for they decide about the partition."""
    return Shown("null") if data is None else _shown(data, shape, exact=True)


def _shown(data: bytes, shape: AnyShape, *, exact: bool) -> Shown:
    text = _json_text(data) if shape is None else None
    if text is None:
        return _shown_as_declared(data, shape)
    # Line breaks can stand only between the tokens of JSON.
    line = re.sub(r"[\r\n]", " ", text.strip())
    if exact and line != text:
        return _shown_as_text(data)
    return Shown(line, "json" if line == "null" or line.startswith('"') else None)


def _shown_as_declared(data: bytes, shape: AnyShape) -> Shown:
    if shape in NUMBERS:
        with suppress(SerdeError, ValueError):  # other bytes than declared, or no number in JSON: NaN
            return Shown(json.dumps(NUMBERS[shape].decode(data), allow_nan=False), shape)
    return _shown_as_text(data)


def _json_text(data: bytes) -> str | None:
    if not _MAYBE.match(data):
        return None
    try:
        JSON.decode(data)
    except SerdeError:
        return None
    return data.decode()


def _shown_as_text(data: bytes) -> Shown:
    try:
        return Shown(_text(data.decode()))
    except UnicodeDecodeError:
        return Shown(_text(b64encode(data).decode()), "base64")


def _header_text(name: str, data: bytes | None) -> str:
    shown = Shown("null") if data is None else _shown_as_text(data)
    encoding = f',"encoding":{_text(shown.encoding)}' if shown.encoding else ""
    return f'{{"name":{_text(name)},"value":{shown.text}{encoding}}}'


_text = json.JSONEncoder(ensure_ascii=False).encode


# -- in


class Member(NamedTuple):
    """A member of an object: what it means, and the very text."""

    value: Any
    text: str


KNOWN = ("key", "value", "timestamp", "headers", "encoding", "key_encoding", "partition", "offset")
ENCODINGS = ("json", "base64", *NUMBERS)
NULL = Member(None, "null")


def record_of(line: bytes, now: int) -> Record:
    """`partition` and `offset` are where a record was read, so they do not count here."""
    try:
        members = members_of(line.decode())
        _check_names(members)
        return Record(
            0,
            0,
            _bytes_of("key", members.get("key", NULL), members.get("key_encoding", NULL).value),
            _bytes_of("value", members["value"], members.get("encoding", NULL).value),
            _timestamp_of(members.get("timestamp", NULL).value, now),
            tuple(_headers_of(members.get("headers", NULL).value)),
        )
    except UnicodeDecodeError as error:
        raise SerdeError(f"not UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        raise SerdeError(f"not a JSON object: {error}") from None


def _check_names(members: dict[str, Member]) -> None:
    hint = "without --json a whole line is the value"
    for name in members:
        if name not in KNOWN:
            raise SerdeError(f'there is a member "{name}"; a record has {", ".join(KNOWN)}, and {hint}')
    if "value" not in members:
        raise SerdeError(f'there is no "value", not even null; {hint}')


def _bytes_of(name: str, member: Member, encoding: Any) -> bytes | None:
    if encoding is not None and encoding not in ENCODINGS:
        raise SerdeError(f'"{name}" has the encoding {encoding!r}; there is {", ".join(ENCODINGS)}')
    try:
        return _encoded(member, encoding)
    except (SerdeError, TypeError, ValueError) as error:
        raise SerdeError(f'the "{name}" {member.text:.80} cannot be written as {encoding or "text"}: {error}') from None


def _encoded(member: Member, encoding: str | None) -> bytes | None:
    value = member.value
    if encoding is None and value is None:
        return None
    if encoding is None and isinstance(value, str):
        return value.encode()
    if encoding == "base64":
        return b64decode(value, validate=True)
    if encoding in NUMBERS:
        return NUMBERS[encoding].encode(value)
    return member.text.encode()


def _timestamp_of(value: Any, now: int) -> int:
    if value is None:
        return now
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise SerdeError(f'the "timestamp" is {value!r}; give milliseconds as a whole number, or leave it out')
    return value


def _headers_of(value: Any) -> Iterator[tuple[str, bytes | None]]:
    """A list of {"name": …, "value": …}, or for short {name: value}."""
    if isinstance(value, dict):
        value = [{"name": name, "value": text} for name, text in value.items()]
    if not isinstance(value, list | None):
        raise SerdeError(f'the "headers" are {value!r}; write [{{"name": "trace", "value": "text"}}]')
    for header in value or ():
        match header:
            case {"name": str(name), "value": str() | None as text}:
                member = NULL if text is None else Member(text, text)
                yield name, _bytes_of("headers", member, header.get("encoding"))
            case _:
                raise SerdeError(f'a header is {header!r}; write {{"name": "trace", "value": "text"}}')


def _refuse(constant: str) -> NoReturn:
    raise SerdeError(f"{constant} is not JSON; write null, or a string")


def _whole_number(digits: str) -> int | float:
    """Python makes no int of more than 4300 digits; what is written is the text, not this."""
    return int(digits) if len(digits) < 1000 else float(digits)


_decoder = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole_number)


def members_of(text: str) -> dict[str, Member]:
    """The members of the one object in a text, each with its own text, so that numbers keep all their digits."""
    members = {}
    at = _match(_OPENING, text, 0).end()
    following = ","
    while following == ",":
        name = _match(_NAME, text, at)
        value, end = _decoder.raw_decode(text, name.end())
        members[name[1]] = Member(value, text[name.end() : end])
        after = _match(_SEPARATOR, text, end)
        following, at = after[1], after.end()
    if at != len(text):
        raise json.JSONDecodeError("there is more after the object", text, at)
    return members


_OPENING = re.compile(r"\s*\{\s*")
_NAME = re.compile(r'"([^"\\]*)"\s*:\s*')
_SEPARATOR = re.compile(r"\s*([,}])\s*")
_EXPECTED = {_OPENING: "a {", _NAME: "a name in quotes and a :", _SEPARATOR: "a , or }"}


def _match(token: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = token.match(text, at)
    if match is None:
        raise json.JSONDecodeError(f"{_EXPECTED[token]} was expected", text, at)
    return match
