"""Records as lines of JSON: `produce --json` restores exactly what `consume --json` has printed.

Keys and values are shown as JSON if they are valid JSON, else as text, else in base64. A string stands for its text,
and other JSON for itself, unless there is an `"encoding"` or `"key_encoding"`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from streamtopo.cli.shared.declared_types import NUMBERS, DeclaredType, DeclaredTypes, text_to_bytes
from streamtopo.errors import SerdeError
from streamtopo.records import Headers
from streamtopo.serdes import JSON, STR, Serde
from streamtopo.serdes.text import decoded


class TopicRecord(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


_JSON_START = re.compile(rb'[\s{\["\-0-9tfn]')
"""How JSON starts. Most text does not start so, and needs no closer look."""


class JsonText(NamedTuple):
    """Bytes as JSON text, and the encoding if the bytes do not follow from the text."""

    text: str
    encoding: str | None = None


# -- to JSON


def to_line(record: TopicRecord, types: DeclaredTypes) -> str:
    key, value = key_to_json(record.key, types.key), value_to_json(record.value, types.value)
    key_encoding = f',"key_encoding":"{key.encoding}"' if key.encoding else ""
    encoding = f',"encoding":"{value.encoding}"' if value.encoding else ""
    headers = ",".join([_header_text(name, data) for name, data in record.headers])
    return (
        f'{{"key":{key.text}{key_encoding},"value":{value.text}{encoding},"partition":{record.partition},'
        f'"offset":{record.offset},"timestamp":{record.timestamp},"headers":[{headers}]}}'
    )


def value_to_json(data: bytes | None, declared: DeclaredType = None) -> JsonText:
    return JsonText("null") if data is None else _to_json(data, declared, exact=False)


def key_to_json(data: bytes | None, declared: DeclaredType = None) -> JsonText:
    """Keep every byte of a key, because the bytes select the partition."""
    return JsonText("null") if data is None else _to_json(data, declared, exact=True)


def _to_json(data: bytes, declared: DeclaredType, *, exact: bool) -> JsonText:
    sure = declared is not None and _is_plain(declared)
    text = None if sure else _json_text(data)
    if text is None:
        return _declared_to_json(data, declared)
    # In valid JSON, line breaks are only between the tokens.
    line = re.sub(r"[\r\n]", " ", text.strip())
    if line != text and (exact or line[0] not in "{["):
        return _text_to_json(data)
    return JsonText(line, "json" if line == "null" or line.startswith('"') else None)


def _declared_to_json(data: bytes, declared: DeclaredType) -> JsonText:
    if declared is not None and declared.name in NUMBERS:
        with suppress(SerdeError, ValueError):  # the bytes are not of this type, or the number is not valid JSON: NaN
            return JsonText(json.dumps(declared.decode(data), allow_nan=False), declared.name)
    return _text_to_json(data)


def _json_text(data: bytes) -> str | None:
    if not _JSON_START.match(data):
        return None
    try:
        JSON.decode(data)
    except SerdeError:
        return None
    return data.decode()


def _text_to_json(data: bytes) -> JsonText:
    try:
        return JsonText(_text(data.decode()))
    except UnicodeDecodeError:
        return JsonText(_text(b64encode(data).decode()), "base64")


def _header_text(name: str, data: bytes | None) -> str:
    shown = JsonText("null") if data is None else _text_to_json(data)
    encoding = f',"encoding":{_text(shown.encoding)}' if shown.encoding else ""
    return f'{{"name":{_text(name)},"value":{shown.text}{encoding}}}'


_text = json.JSONEncoder(ensure_ascii=False).encode


# -- from JSON


class JsonMember(NamedTuple):
    """The value of a member of an object, and its text in the line."""

    value: Any
    text: str


KNOWN = ("key", "value", "timestamp", "headers", "encoding", "key_encoding", "partition", "offset")
ENCODINGS = ("json", "base64", *NUMBERS)
NULL = JsonMember(None, "null")
UNDECLARED = DeclaredTypes()


def from_line(line: bytes, now: int, types: DeclaredTypes = UNDECLARED) -> TopicRecord:
    """Return the record of a line. Its `partition` and `offset` are ignored: they say where it was read."""
    try:
        members = members_of(line.decode())
        _check_names(members)
        return TopicRecord(
            0,
            0,
            _bytes_of("key", members.get("key", NULL), members.get("key_encoding", NULL).value, types.key),
            _bytes_of("value", members["value"], members.get("encoding", NULL).value, types.value),
            _timestamp_of(members.get("timestamp", NULL).value, now),
            tuple(_headers_of(members.get("headers", NULL).value)),
        )
    except UnicodeDecodeError as error:
        raise SerdeError(f"not UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        raise SerdeError(f"not a JSON object: {error}") from None


def value_of(members: dict[str, JsonMember], declared: DeclaredType) -> bytes | None:
    """The bytes of the value, in the type that is declared for it."""
    return _bytes_of("value", members["value"], members.get("encoding", NULL).value, declared)


def _check_names(members: dict[str, JsonMember]) -> None:
    hint = "without --json a whole line is the value"
    for name in members:
        if name not in KNOWN:
            raise SerdeError(f'unknown member "{name}"; a record has {", ".join(KNOWN)}, and {hint}')
    if "value" not in members:
        raise SerdeError(f'the object has no "value", not even null; {hint}')


def _bytes_of(name: str, member: JsonMember, encoding: Any, declared: DeclaredType = None) -> bytes | None:
    if encoding is not None and encoding not in ENCODINGS:
        raise SerdeError(f'"{name}" has the encoding {encoding!r}; give one of {", ".join(ENCODINGS)}')
    if declared is not None and encoding is None and not _defined_by_bytes(declared):
        return _declared_bytes(name, member, declared)
    try:
        data = _encoded(member, encoding)
        if declared is not None and data is not None:
            decoded(declared, data)
        return data
    except (SerdeError, TypeError, ValueError) as error:
        raise SerdeError(f'the "{name}" {member.text:.80} cannot be written as {encoding or "text"}: {error}') from None


def _is_plain(declared: Serde) -> bool:
    """Numbers and text: the type alone says what the bytes are."""
    return declared == STR or declared.name in NUMBERS


def _defined_by_bytes(declared: Serde) -> bool:
    """Keys with windows, and values of the user's own serdes: no JSON stands for them, only the text of their bytes."""
    return declared.inner is not None or declared.kind is None


def _declared_bytes(name: str, member: JsonMember, declared: Serde) -> bytes | None:
    if member.value is None:
        return None
    try:
        if _is_plain(declared):
            return declared.encode(member.value)
        return text_to_bytes(declared, member.text.encode())
    except SerdeError as error:
        raise SerdeError(f"the {name} does not fit: {error}") from None


def _encoded(member: JsonMember, encoding: str | None) -> bytes | None:
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
        raise SerdeError(f'the "timestamp" is {value!r}; give milliseconds as a whole number, or remove it')
    return value


def _headers_of(value: Any) -> Iterator[tuple[str, bytes | None]]:
    """Yield the headers of a list of {"name": …, "value": …}, or, for short, of {name: value}."""
    if isinstance(value, dict):
        value = [{"name": name, "value": text} for name, text in value.items()]
    if not isinstance(value, list | None):
        raise SerdeError(f'the "headers" are {value!r}; write [{{"name": "trace", "value": "text"}}]')
    for header in value or ():
        match header:
            case {"name": str(name), "value": str() | None as text}:
                member = NULL if text is None else JsonMember(text, text)
                yield name, _bytes_of("headers", member, header.get("encoding"))
            case _:
                raise SerdeError(f'a header is {header!r}; write {{"name": "trace", "value": "text"}}')


def _refuse_constant(constant: str) -> NoReturn:
    raise SerdeError(f"{constant} is not valid JSON; write null, or a string")


def _parse_int(digits: str) -> int | float:
    """Python refuses integers of more than 4300 digits. The value does not matter: the text is written."""
    return int(digits) if len(digits) < 1000 else float(digits)


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_parse_int)


def members_of(text: str) -> dict[str, JsonMember]:
    """Return the members of a JSON object, each with its text, so that numbers keep all their digits."""
    members = {}
    at = _match(_OPENING, text, 0).end()
    following = ","
    while following == ",":
        name = _match(_NAME, text, at)
        value, end = _decoder.raw_decode(text, name.end())
        members[name[1]] = JsonMember(value, text[name.end() : end])
        after = _match(_SEPARATOR, text, end)
        following, at = after[1], after.end()
    if at != len(text):
        raise json.JSONDecodeError("unexpected text after the object", text, at)
    return members


_OPENING = re.compile(r"\s*\{\s*")
_NAME = re.compile(r'"([^"\\]*)"\s*:\s*')
_SEPARATOR = re.compile(r"\s*([,}])\s*")
_EXPECTED = {_OPENING: "a {", _NAME: "a name in quotes and a :", _SEPARATOR: "a , or }"}


def _match(token: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = token.match(text, at)
    if match is None:
        raise json.JSONDecodeError(f"expected {_EXPECTED[token]}", text, at)
    return match
