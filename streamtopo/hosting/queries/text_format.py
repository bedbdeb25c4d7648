"""Parses keys from text, as in URLs, and turns rows into JSON."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from streamtopo.errors import SerdeError, StreamtopoError
from streamtopo.serdes import JSON, Serde
from streamtopo.serdes.text import from_text
from streamtopo.settings.times import time_of
from streamtopo.stores import StoreSpec
from streamtopo.stores.rows.versions import Version

MAX_DIGITS = 30
"""Maximum digits of a time or a count; Python refuses to parse numbers with thousands of digits."""


class MalformedKey(StreamtopoError):
    """The text is not a valid key of the store."""


def parse_key(serde: Serde, text: str) -> Any:
    """Parse a key: numbers as decimals, text and bytes unchanged, everything else as JSON, as in its topic.

    For windowed keys, parse the key without its window.
    """
    serde = serde.inner or serde
    try:
        return from_text(serde, text)
    except Exception as error:
        raise MalformedKey(f'"{text:.80}" is not a key of type {serde.name}: {error}') from error


def parse_bound(spec: StoreSpec, text: str) -> Any:
    """Parse the start or end of a range: a key, or a time for windows and sessions."""
    if not spec.timed:
        return parse_key(spec.key, text)
    try:
        return time_of(text)
    except ValueError as error:
        raise MalformedKey(f"{error}") from None


def row_to_json(spec: StoreSpec, key: Any, value: Any) -> dict[str, Any]:
    """Return a row as JSON; a windowed key is split into key, start and end."""
    if spec.key.inner is None:
        return {"key": to_json(spec.key, key), "value": value_to_json(spec, value)}
    inner, start, end = key
    return {"key": to_json(spec.key.inner, inner), "start": start, "end": end, "value": value_to_json(spec, value)}


def version_to_json(spec: StoreSpec, key: Any, version: Version) -> dict[str, Any]:
    value, timestamp, valid_to = version
    return {**row_to_json(spec, key, value), "timestamp": timestamp, "valid_to": valid_to}


def value_to_json(spec: StoreSpec, value: Any) -> Any:
    """Return a value as JSON. In versioned stores, the serde of the values is inside that of the history."""
    return to_json(spec.value.inner or spec.value, value)


def to_json(serde: Serde, value: Any) -> Any:
    """Return what JSON can represent: models as their JSON, bytes as text if they are UTF-8, else as base64."""
    if value is None or isinstance(value, str | int | float) or serde.name == "json":
        return value
    data = value if isinstance(value, bytes) else serde.encode(value)
    if not isinstance(value, bytes):
        try:
            return JSON.decode(data)
        except SerdeError:
            pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
